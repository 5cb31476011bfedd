// Package machine asks the operating system about this process and others of the machine.
package machine

// Package privatenet runs a program in a network of its own, whose ports other users of the machine cannot reach.
//
// On Linux the network is a network namespace with nothing but a loopback. This executable starts itself a second time
// in the namespace; that process, the starter, brings up the loopback, starts the program and sends sockets of the
// namespace to the process that started it. Other users cannot enter the namespace, because only root and the user who
// created it may. Other programs of the same user may, so the package does not protect from them.
package privatenet

import "errors"

// ErrStarter means that the starter did not do its part: it ended early, did not answer, or refused.
var ErrStarter = errors.New("privatenet: the starter does not answer")

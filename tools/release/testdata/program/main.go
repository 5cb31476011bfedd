// Command program stands for the product in tests of two checkouts.
package main

import (
	"fmt"
	"runtime"
)

var version = "dev"

func main() {
	_, file, _, _ := runtime.Caller(0)
	fmt.Println(version, file)
}

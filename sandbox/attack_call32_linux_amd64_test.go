package sandbox_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// call32 calls getpid with the interrupt of 32-bit programs.
func call32(world) error {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	// push rbx; mov eax, 20; int 0x80; pop rbx; ret
	copy(code, []byte{0x53, 0xb8, 0x14, 0, 0, 0, 0xcd, 0x80, 0x5b, 0xc3})
	start := unsafe.Pointer(&code[0])
	closure := unsafe.Pointer(&start)
	(*(*func())(unsafe.Pointer(&closure)))()
	return nil
}

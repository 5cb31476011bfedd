package interp

import "github.com/dvt-engine/dvt/run"

// ranked is an element of a heap. before is a strict order.
type ranked[T any] interface{ before(T) bool }

// heap is a binary heap with the smallest element at index 0. The zero value is empty.
type heap[T ranked[T]] []T

func (h *heap[T]) push(v T) {
	s := append(*h, v)
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
	*h = s
}

// pop removes and returns the smallest element. The heap must not be empty.
func (h *heap[T]) pop() T {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if right := down + 1; right < last && s[right].before(s[down]) {
			down = right
		}
		if !s[down].before(s[i]) {
			break
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
	*h = s
	return top
}

// ordinal is a step in a heap, in canonical order.
type ordinal run.Ord

func (o ordinal) before(p ordinal) bool { return o < p }

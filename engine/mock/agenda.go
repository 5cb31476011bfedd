package mock

import "time"

// entry is an action at a virtual time. order is the number of the entry and decides between entries of one time.
type entry struct {
	at        time.Time
	order     int
	do        func()
	cancelled bool
}

// agenda implements heap.Interface, ordered by time and then by order.
type agenda []*entry

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if a[i].at.Equal(a[j].at) {
		return a[i].order < a[j].order
	}
	return a[i].at.Before(a[j].at)
}

func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

func (a *agenda) Push(x any) { *a = append(*a, x.(*entry)) }

func (a *agenda) Pop() any {
	last := len(*a) - 1
	it := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return it
}

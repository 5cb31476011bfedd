package main

import (
	"testing"

	"github.com/dvt-engine/dvt/client"
)

func TestRunList_SortsByWords(t *testing.T) {
	t.Parallel()
	if order, err := runOrder(""); order != nil || err != nil {
		t.Errorf("without --sort the order is %v, error %v, want that of the server", order, err)
	}
	for given, want := range map[string]client.RunOrder{
		"oldest": client.RunOrderCreatedAsc, "ended": client.RunOrderEndedDesc, "longest": client.RunOrderDurationDesc,
		"shortest": client.RunOrderDurationAsc, "time-left": client.RunOrderTimeLeftAsc,
	} {
		order, err := runOrder(given)
		if err != nil || *order != want {
			t.Errorf("--sort %s is %v, error %v, want %s", given, order, err, want)
		}
	}
	if _, err := runOrder("status"); err == nil {
		t.Error("--sort status is accepted, want a refusal that names the orders")
	}
}

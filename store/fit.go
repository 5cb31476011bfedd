package store

import "github.com/dvt-engine/dvt/run"

// MaxRowText limits each free text of an audit row or an alert, in bytes. Texts of accepted calls are never longer. A
// refused call may carry a longer text, and its audit row must still fit the table.
const MaxRowText = 64 << 10

// Fit returns the row with each of its texts passed through run.Text, which cuts it to MaxRowText. Adapters must call
// it before they write a row.
func (r AuditRow) Fit() AuditRow {
	for _, text := range []*string{&r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Reason,
		&r.RequestID, &r.Credential, &r.Address, &r.Via} {
		*text = run.Text(*text, MaxRowText)
	}
	return r
}

// Fit returns the alert with its free texts passed through run.Text. Adapters must call it before they write an alert.
func (a Alert) Fit() Alert {
	a.Note, a.Actor = run.Text(a.Note, MaxRowText), run.Text(a.Actor, MaxRowText)
	return a
}

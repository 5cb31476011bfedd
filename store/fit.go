package store

import "github.com/dvt-engine/dvt/run"

// MaxRowText bounds each free text of an audit row or an alert, in bytes. What a use case accepts is shorter or as long;
// the bound keeps a text that was refused for its length out of the table.
const MaxRowText = 64 << 10

// Fit returns the row with each of its texts as run.Text makes it. Adapters write no other row.
func (r AuditRow) Fit() AuditRow {
	for _, text := range []*string{&r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Reason, &r.RequestID, &r.Credential, &r.Address, &r.Via} {
		*text = run.Text(*text, MaxRowText)
	}
	return r
}

// Fit returns the alert with its free texts as run.Text makes them. Adapters write no other alert.
func (a Alert) Fit() Alert {
	a.Note, a.Actor = run.Text(a.Note, MaxRowText), run.Text(a.Actor, MaxRowText)
	return a
}

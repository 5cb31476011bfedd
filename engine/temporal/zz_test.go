package temporal_test
import ("testing";"fmt")
func TestZZ(t *testing.T){
 h := newHarness(t, options{})
 var long []step
 for i := range 12 { s := step{id: fmt.Sprintf("s%03d", i)}; if i>0 {s.deps=fmt.Sprintf("s%03d", i-1)}; long=append(long,s)}
 id := h.start(document(0,long...)); h.ended(id)
 ev := h.history(id).Events
 for i,e := range ev { d:=0.0; if i>0 {d=float64(e.EventTime.AsTime().Sub(ev[i-1].EventTime.AsTime()).Microseconds())/1000}; fmt.Println(e.EventId,e.EventType,d, e.GetActivityTaskScheduledEventAttributes().GetActivityId()) }
}

package ws

import "net/http"

// unknownSockets counts sockets that are not authenticated yet. They have separate limits: anybody who reaches the port
// may open them, so they must not use up the slots of authenticated callers. The lock of the Server guards it.
type unknownSockets struct {
	total     int
	byAddress map[string]int // addresses without sockets have no entry
}

// admit counts an unauthenticated socket; false when there are too many or the server is stopping.
func (s *Server) admit(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &s.unknown
	if s.stopping.Err() != nil || s.total >= s.cfg.Streams || u.total >= s.cfg.Unknown ||
		u.byAddress[address] >= s.cfg.UnknownOfAddress {
		return false
	}
	u.total++
	u.byAddress[address]++
	s.running++
	return true
}

// know counts an admitted socket as authenticated. It returns false when there are too many of those; the socket then
// stays counted as unauthenticated.
func (s *Server) know(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.cfg.Streams {
		return false
	}
	s.total++
	s.unknown.forget(address)
	return true
}

// dropUnknown reverts admit.
func (s *Server) dropUnknown(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown.forget(address)
	s.decRunning()
}

func (u *unknownSockets) forget(address string) {
	u.total--
	if u.byAddress[address]--; u.byAddress[address] == 0 {
		delete(u.byAddress, address)
	}
}

// ServeWebSocket upgrades the request and returns; a goroutine serves the socket until it is closed.
func (s *Server) ServeWebSocket(w http.ResponseWriter, r *http.Request) {
	address := s.cfg.Address(r)
	if !s.admit(address) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "This server takes no more sockets from here now. Connect again later.", http.StatusServiceUnavailable)
		return
	}
	if !s.upgrade(w, r, address) {
		s.dropUnknown(address)
	}
}

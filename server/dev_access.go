package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// DevAccess is the content of the file `tokens` in the data directory of a `dvt dev`, which only its owner can read.
// `dvt dev` creates it at its first start and keeps the tokens at later starts; the command line reads it.
type DevAccess struct {
	// Address is the host:port of the process that uses the data directory. It is empty until that process listens.
	Address string `json:"address"`
	// Secret is the key from which browser sessions and the path of the notification receiver are derived.
	Secret string `json:"secret"`
	// Tokens are the tokens of the dev principals, by name.
	Tokens map[string]string `json:"tokens"`

	data string
}

const (
	accessFile = "tokens"
	maxAccess  = 64 << 10 // bytes read from the file
)

// ErrNoDevData means that `dvt dev` has never used the data directory.
var ErrNoDevData = errors.New("no `dvt dev` has run on this data directory")

// ReadDevAccess reads the file `tokens` of a data directory. It returns ErrNoDevData when the file is missing. A file
// that other users can read or that another user owns is an error, because that user could choose the server that
// receives a token.
func ReadDevAccess(data string) (DevAccess, error) {
	data, err := filepath.Abs(data)
	if err != nil {
		return DevAccess{}, err
	}
	a := DevAccess{data: data}
	doc, err := readOwn(a.path())
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("%w: %s. Start `dvt dev` first, or name its directory with --data or DVT_DATA", ErrNoDevData,
			data)
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(doc, &a); err != nil || !authz.LooksLikeSecret(a.Secret) || len(a.Tokens) == 0 {
		return a, fmt.Errorf("%s holds no tokens: stop `dvt dev`, delete the file and start again, and dvt makes new ones",
			a.path())
	}
	return a, nil
}

func (a DevAccess) path() string { return filepath.Join(a.data, accessFile) }

// readOwn reads at most maxAccess bytes of a regular file that belongs to this user and that others cannot open.
func readOwn(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: delete it, or choose another directory with --data", path)
	}
	if err := belongsTo(path, info, os.Geteuid()); err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf(
			"%s is open to other users (mode %04o), who may have read the tokens in it: stop `dvt dev`, delete the file "+
				"and start again, and dvt makes new ones", path, mode)
	}
	return io.ReadAll(io.LimitReader(f, maxAccess))
}

// belongsTo returns an error for a file of another user, who may run a `dvt dev` with it.
func belongsTo(path string, info fs.FileInfo, user int) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is not known", path)
	}
	if int(stat.Uid) != user {
		return fmt.Errorf("%s belongs to the user %d: run the command as that user, or choose another directory with --data",
			path, stat.Uid)
	}
	return nil
}

// openDevAccess reads the file `tokens` or creates it. The caller holds the lock of the data directory. It clears the
// address of an earlier process, because another program may listen there now.
func openDevAccess(data string) (DevAccess, error) {
	a, err := ReadDevAccess(data)
	if errors.Is(err, ErrNoDevData) {
		a.Secret, _ = authz.NewSecret()
		err = nil
	}
	if err != nil {
		return a, err
	}
	existing := a.Tokens
	a.Address, a.Tokens = "", map[string]string{}
	for _, account := range authz.DevAccounts(func(string) string { return "" }) {
		token := existing[account.ID]
		if !authz.LooksLikeSecret(token) {
			token, _ = authz.NewSecret()
		}
		a.Tokens[account.ID] = token
	}
	return a, a.write()
}

// write replaces the file atomically.
func (a DevAccess) write() error {
	doc, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(a.data, "."+accessFile+"-*") // with the mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(append(doc, '\n'))
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), a.path())
	}
	if err != nil {
		return fmt.Errorf("the tokens of dvt dev: %w", errors.Join(err, os.Remove(next.Name())))
	}
	return nil
}

// IsRunning reports whether the process that wrote Address still runs. The kernel releases the lock of a process that
// ended. So a program that took over its port does not receive a token.
func (a DevAccess) IsRunning() bool {
	if a.Address == "" {
		return false
	}
	// A shared lock, because two commands may ask at the same time.
	unlock, err := flock(filepath.Join(a.data, lockFile), syscall.LOCK_SH)
	if err == nil {
		unlock()
	}
	return errors.Is(err, errLocked)
}

// NotifyURL returns the address that receives the notifications of sample plans. Its path cannot be guessed, because an
// HTTP_NOTIFY step sends no token.
func (a DevAccess) NotifyURL() string {
	return "http://" + a.Address + notifyPath + a.derive(notifyPurpose)
}

const notifyPurpose = "notify"

// derive returns a value for a purpose that only the holder of the secret can compute.
func (a DevAccess) derive(purpose string) string {
	mac := hmac.New(sha256.New, []byte(a.Secret))
	_, _ = mac.Write([]byte(purpose)) // it never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// cookieName returns a name that differs between data directories, because browsers send the cookies of a host to all
// of its ports.
func (a DevAccess) cookieName() string {
	sum := sha256.Sum256([]byte(a.derive("cookie")))
	return sessionCookie + "_" + hex.EncodeToString(sum[:4])
}

// devSessionLife is how long a browser stays signed in to `dvt dev`.
const devSessionLife = 30 * 24 * time.Hour

// session returns the value of the cookie that signs a browser in as a dev principal until a moment: NAME.SECONDS.MAC.
// It is not a token: the API accepts it only as a cookie.
func (a DevAccess) session(principal string, until time.Time) string {
	claim := principal + "." + strconv.FormatInt(until.Unix(), 10)
	return claim + "." + a.derive("session "+claim)
}

// principalOf returns the principal of a session: authz.ErrUnauthenticated when the session is invalid,
// authz.ErrExpired when it is too old.
func (a DevAccess) principalOf(session string, now time.Time) (string, error) {
	principal, rest, _ := strings.Cut(session, ".")
	seconds, _, _ := strings.Cut(rest, ".")
	until, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || a.Tokens[principal] == "" || !same(session, a.session(principal, time.Unix(until, 0))) {
		return "", authz.ErrUnauthenticated
	}
	if now.Unix() >= until {
		return "", authz.ErrExpired
	}
	return principal, nil
}

// nameOf returns the dev principal with this token. It ignores API tokens of a principal, because they may hold fewer
// rights.
func (a DevAccess) nameOf(token string) (principal string, ok bool) {
	for name, t := range a.Tokens {
		if same(token, t) {
			principal, ok = name, true
		}
	}
	return principal, ok
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// IsDevAddress reports whether hostPort, from an http URL, leads to the process that wrote Address. The name localhost
// counts too. The caller must then connect to Address, because another program could listen on another address of
// localhost.
func (a DevAccess) IsDevAddress(hostPort string) bool {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || a.Address == "" {
		return false
	}
	_, own, _ := net.SplitHostPort(a.Address)
	return hostPort == a.Address || strings.EqualFold(host, "localhost") && port == own
}

// closeToOthers removes the access of other users from the data directory, which contains the database, the logs of
// steps and the tokens. It refuses a directory that belongs to another user or has the sticky bit, such as /tmp.
func closeToOthers(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() || info.Mode()&os.ModeSticky != 0 {
		return fmt.Errorf("the directory %s is shared with other users: choose a directory for dvt dev alone with --data", dir)
	}
	return os.Chmod(dir, 0o700)
}

package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	statementFile = "provenance.json"        // the statement, which `release sign` signs
	envelopeFile  = "provenance.intoto.json" // the signed statement
	payloadType   = "application/vnd.in-toto+json"
)

// statement is an in-toto statement with a SLSA provenance: which files came from which source by which build.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder map[string]string `json:"builder"`
	} `json:"runDetails"`
}

type resource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// newStatement describes files of a directory. imageDigest is the digest by which the image is pulled.
func (s *source) newStatement(dir string, files []string, imageDigest, goVersion string) (*statement, error) {
	st := &statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []subject{{Name: "image " + s.Name, Digest: map[string]string{"sha256": imageDigest}}}}
	for _, f := range files {
		sum, err := fileSum(filepath.Join(dir, f))
		if err != nil {
			return nil, err
		}
		st.Subject = append(st.Subject, subject{Name: f, Digest: map[string]string{"sha256": sum}})
	}
	d := &st.Predicate.BuildDefinition
	d.BuildType = s.Source + "/blob/main/docs/install.md#verify-a-release"
	d.ExternalParameters = map[string]string{"version": s.version, "configuration": configFile}
	d.InternalParameters = map[string]string{"go": goVersion, "sourceDateEpoch": fmt.Sprint(s.time.Unix())}
	d.ResolvedDependencies = []resource{{URI: "git+" + s.Source, Digest: map[string]string{"gitCommit": s.revision}}}
	for _, lock := range []string{"go.sum", "web/package-lock.json"} {
		sum, err := fileSum(filepath.Join(s.root, lock))
		if err != nil {
			return nil, err
		}
		d.ResolvedDependencies = append(d.ResolvedDependencies,
			resource{URI: lock, Digest: map[string]string{"sha256": sum}})
	}
	st.Predicate.RunDetails.Builder = map[string]string{"id": s.Source + "/tree/main/tools/release"}
	return st, nil
}

// ecdsaKey signs and verifies as cosign does with a key: ECDSA on P-256 over SHA-256, in ASN.1.
type ecdsaKey struct {
	private *ecdsa.PrivateKey // nil to verify only
	public  *ecdsa.PublicKey
}

var (
	_ dsse.Signer   = ecdsaKey{}
	_ dsse.Verifier = ecdsaKey{}
)

// readKey reads a private key of PKCS #8 or a public key of PKIX, in PEM.
func readKey(file string) (ecdsaKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return ecdsaKey{}, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return ecdsaKey{}, fmt.Errorf("%s has no key in PEM", file)
	}
	var key any
	if block.Type == "PUBLIC KEY" {
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	} else {
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return ecdsaKey{}, fmt.Errorf("%s: %w", file, err)
	}
	k := ecdsaKey{}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		k = ecdsaKey{private: key, public: &key.PublicKey}
	case *ecdsa.PublicKey:
		k = ecdsaKey{public: key}
	}
	if k.public == nil || k.public.Curve != elliptic.P256() {
		return k, fmt.Errorf("%s is no key of ECDSA on P-256: make one with openssl, see docs/install.md", file)
	}
	return k, nil
}

// Sign returns the signature of data.
func (k ecdsaKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	if k.private == nil {
		return nil, errors.New("this is a public key: sign with the private one")
	}
	sum := sha256.Sum256(data)
	return ecdsa.SignASN1(rand.Reader, k.private, sum[:])
}

// Verify returns an error when sig is no signature of data by this key.
func (k ecdsaKey) Verify(_ context.Context, data, sig []byte) error {
	if sum := sha256.Sum256(data); !ecdsa.VerifyASN1(k.public, sum[:], sig) {
		return errors.New("the signature is not of this key")
	}
	return nil
}

// KeyID returns the SHA-256 of the public key.
func (k ecdsaKey) KeyID() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(k.public)
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

// Public returns the public key.
func (k ecdsaKey) Public() crypto.PublicKey { return k.public }

// sign writes the signed statement of a release.
func sign(ctx context.Context, dir, keyFile string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	payload, err := os.ReadFile(filepath.Join(dir, statementFile))
	if err != nil {
		return fmt.Errorf("%s has no release: %w", dir, err)
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return err
	}
	envelope, err := signer.SignPayload(ctx, payloadType, payload)
	if err != nil {
		return err
	}
	text, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, envelopeFile), append(text, '\n'), 0o644)
}

// verify checks a release without a network: the signature, the checksum of each file that is there, and that no file
// is there that the release does not have. It returns the signed statement.
func verify(ctx context.Context, dir, keyFile string) (*statement, error) {
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, envelopeFile))
	if err != nil {
		return nil, fmt.Errorf("the release is not signed: %w", err)
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return nil, fmt.Errorf("%s: %w", envelopeFile, err)
	}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		return nil, err
	}
	if _, err := verifier.Verify(ctx, &envelope); err != nil {
		return nil, fmt.Errorf("%s: %w", envelopeFile, err)
	}
	payload, err := envelope.DecodeB64Payload()
	if err != nil {
		return nil, err
	}
	var st statement
	d := json.NewDecoder(bytes.NewReader(payload))
	if err := d.Decode(&st); err != nil || envelope.PayloadType != payloadType {
		return nil, fmt.Errorf("%s has no statement of in-toto: %w", envelopeFile, err)
	}
	return &st, errors.Join(checkCopy(dir, payload), st.checkFiles(dir))
}

// checkCopy compares the readable copy of the statement, which no signature covers by itself, with the signed one.
func checkCopy(dir string, payload []byte) error {
	copied, err := os.ReadFile(filepath.Join(dir, statementFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && !bytes.Equal(copied, payload) {
		err = fmt.Errorf("%s differs from the statement that %s signs: delete it, and download it again", statementFile,
			envelopeFile)
	}
	return err
}

// checkFiles compares the files of a directory with the statement and returns every difference.
func (st *statement) checkFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var wrong []error
	for _, e := range entries {
		i := slices.IndexFunc(st.Subject, func(s subject) bool { return s.Name == e.Name() })
		if i < 0 && e.Name() != envelopeFile && e.Name() != statementFile {
			wrong = append(wrong, fmt.Errorf("%s is not part of the release", e.Name()))
		}
	}
	for _, s := range st.Subject[min(1, len(st.Subject)):] {
		sum, err := fileSum(filepath.Join(dir, filepath.Base(s.Name)))
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue // a person may download some files only
		case err != nil:
			wrong = append(wrong, err)
		case sum != s.Digest["sha256"]:
			wrong = append(wrong, fmt.Errorf("%s has the SHA-256 %s, but %s was signed", s.Name, sum, s.Digest["sha256"]))
		}
	}
	return errors.Join(wrong...)
}

// summary names the version, the commit, the image and the files of a directory that was verified, and counts the files
// of the release that are not there.
func (st *statement) summary(dir string) string {
	d := st.Predicate.BuildDefinition
	text := fmt.Sprintf("verified: version %s", d.ExternalParameters["version"])
	for _, r := range d.ResolvedDependencies {
		if commit := r.Digest["gitCommit"]; commit != "" {
			text += fmt.Sprintf(" of commit %s", commit)
		}
	}
	absent := 0
	for i, s := range st.Subject {
		if _, err := os.Stat(filepath.Join(dir, filepath.Base(s.Name))); i > 0 && err != nil {
			absent++
			continue
		}
		text += fmt.Sprintf("\n  sha256:%s  %s", s.Digest["sha256"], s.Name)
	}
	if absent > 0 {
		text += fmt.Sprintf("\n%d files of the release are not in this directory and were not verified", absent)
	}
	return text + "\n"
}

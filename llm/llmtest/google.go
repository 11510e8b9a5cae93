package llmtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// serviceKey is the private key of all service accounts.
var serviceKey = sync.OnceValue(func() string {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	data, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data}))
})

// RevokedAccount is the service account that gets no tokens.
const RevokedAccount = "revoked"

// GoogleCredentials returns the path of a file with the credentials of a service account, for
// GOOGLE_APPLICATION_CREDENTIALS. The server issues its tokens, which are the name of the account.
func (s *Server) GoogleCredentials(t testing.TB, account string) string {
	t.Helper()
	data, err := json.Marshal(object{
		"type": "service_account", "project_id": "project-of-tests", "client_email": account, "client_id": "1",
		"private_key_id": "1", "private_key": serviceKey(), "token_uri": s.Root + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serveToken issues a token for the assertion of a service account.
func serveToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var claims struct {
		Issuer string `json:"iss"`
		Scope  string `json:"scope"`
	}
	parts := strings.Split(r.FormValue("assertion"), ".")
	if len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1]) // nothing else has an issuer
		_ = json.Unmarshal(payload, &claims)
	}
	if claims.Issuer == "" || claims.Issuer == RevokedAccount || !strings.Contains(claims.Scope, "cloud-platform") {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(object{"error": "invalid_grant", "error_description": "Invalid JWT"}) // the client may be gone
		return
	}
	_ = json.NewEncoder(w).Encode(object{"access_token": claims.Issuer, "token_type": "Bearer", "expires_in": 3600}) // the client may be gone
}

package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/store"
)

// ticketPrefix begins the text of a ticket.
const ticketPrefix = "tmt_"

// ErrConfiguredKey means that a key makes no tickets: files that others may read have the hashes of configured keys, which would
// sign them.
var ErrConfiguredKey = errors.New("a configured API key makes no tickets: use one that \"starter keys create\" has made")

// Ticket returns a text that stands for the API key of a request, for one purpose, until a time: [Keys.Redeem] accepts it. The
// hash of the stored key signs it, so that every process with the store can redeem it, and none once the key is revoked or
// rotated. It is "" if the request has no key.
func (k *Keys) Ticket(authorization, purpose string, until time.Time) (string, error) {
	text, ok := bearer(&http.Request{Header: http.Header{"Authorization": {authorization}}})
	if !ok || k == nil {
		return "", nil
	}
	id, token, err := ParseToken(text)
	if err != nil {
		return "", err
	}
	if _, found, _ := k.configured(k.Configured(), token.Hash()); found {
		return "", ErrConfiguredKey
	}
	deadline := strconv.FormatInt(until.Unix(), 10)
	return ticketPrefix + strings.Join([]string{id, deadline, sign(token.Hash(), id, deadline, purpose)}, "_"), nil
}

// Redeem returns the principal of the key that made a ticket for a purpose. It has the role read at most. Without begin, a
// ticket whose time is over is accepted too: what it began goes on.
func (k *Keys) Redeem(ctx context.Context, ticket, purpose string, begin bool) (Principal, error) {
	invalid := unauthenticated("the ticket is not valid for this stream: get another one")
	text, ok := strings.CutPrefix(ticket, ticketPrefix)
	parts := strings.SplitN(text, "_", 3)
	if !ok || k == nil || len(parts) != 3 {
		return Principal{}, invalid
	}
	id, deadline, signature := parts[0], parts[1], parts[2]
	until, err := strconv.ParseInt(deadline, 10, 64)
	if err != nil || begin && !k.cfg.Now().Before(time.Unix(until, 0)) {
		return Principal{}, unauthenticated("the ticket has expired: get another one")
	}
	key, err := k.read(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Principal{}, err
	}
	for _, hash := range []string{key.Hash, key.PreviousHash} {
		if hash == "" || !same(sign(hash, id, deadline, purpose), signature) {
			continue
		}
		p, err := k.stored(ctx, id, hash)
		if p.Roles.Has(RoleRead) {
			p.Roles = Roles{RoleRead}
		}
		return p, err
	}
	return Principal{}, invalid
}

// sign returns the signature of a ticket by the hash of a key.
func sign(hash, id, deadline, purpose string) string {
	signed, _ := json.Marshal([]string{"ticket", id, deadline, purpose}) // strings can always be encoded
	mac := hmac.New(sha256.New, []byte(hash))
	mac.Write(signed)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

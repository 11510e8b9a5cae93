package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/store"
)

// KeyPath is the input of operations on one API key.
type KeyPath struct {
	ID string `path:"id" doc:"The key's id"`
}

type keysInput struct {
	Revoked bool `query:"revoked" doc:"Include revoked keys"`
}

type keysOutput struct {
	Body struct {
		Keys []auth.APIKey `json:"keys" nullable:"false" doc:"Configured ones first, then by name, at most 1000"`
	}
}

type createKeyInput struct {
	Body struct {
		Name      string    `json:"name" minLength:"1" doc:"The sender and the by of the requests that carry the key. Names are case-insensitive"`
		Roles     []string  `json:"roles" maxItems:"6" enum:"read,post,approve,operate,send-as,admin" doc:"What the key may do, at least one role. admin implies all others"`
		ExpiresAt time.Time `json:"expiresAt,omitzero" doc:"Default: never"`
	}
}

type rotateKeyInput struct {
	KeyPath
	Body *struct {
		Overlap string `json:"overlap,omitempty" example:"1h" doc:"How long the previous secret remains valid, at most 168h. Default: it ends at once"`
	} `required:"false"`
}

// newKeyOutput contains the token of a new key, which is not shown again.
type newKeyOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         auth.NewAPIKey
}

func newKey(k store.APIKey, token auth.Token) *newKeyOutput {
	return &newKeyOutput{"no-store", auth.NewAPIKey{Key: auth.APIKey{APIKey: k, Source: auth.SourceStored}, Token: token.Reveal()}}
}

// maxOverlap is the maximum time for which two secrets of a key are valid.
const maxOverlap = 7 * 24 * time.Hour

// keyHandlers serve API keys.
type keyHandlers struct {
	*core
	store store.APIKeys
}

func (h *keyHandlers) registerKeys() {
	tags := []string{"keys"}
	const path, one = "/v1/keys", "/v1/keys/{id}"
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "listKeys", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the API keys of the namespace",
	}, h.listKeys)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "createKey", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Create an API key", DefaultStatus: http.StatusCreated,
		Description: "The response has the secret, which is not shown again. The first key needs the role admin: from then on every request needs a key.",
		Errors:      []int{400, 409, 413},
	}, h.createKey)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "rotateKey", Method: http.MethodPost, Path: one + "/rotate", Tags: tags,
		Summary: "Rotate the secret of an API key", Description: "The response has the secret, which is not shown again.",
		Errors: []int{400, 404, 409, 413},
	}, h.rotateKey)
	register(h.core, auth.RoleAdmin, huma.Operation{
		OperationID: "revokeKey", Method: http.MethodDelete, Path: one, Tags: tags,
		Summary: "Revoke an API key", DefaultStatus: http.StatusNoContent,
		Description: "It ends in all processes within seconds, with its open event streams. Revoking it again changes nothing. " +
			"A key cannot revoke itself, so that an administrator remains.",
		Errors: []int{404, 409},
	}, h.revokeKey)
}

// keyRing is an authenticator that accepts stored API keys.
type keyRing interface {
	Configured() []auth.Key
}

func (h *keyHandlers) listKeys(ctx context.Context, in *keysInput) (*keysOutput, error) {
	all, err := h.keys(ctx)
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	out := &keysOutput{}
	out.Body.Keys = slices.DeleteFunc(all, func(k auth.APIKey) bool { return !in.Revoked && !k.RevokedAt.IsZero() })
	return out, nil
}

// keys returns the configured and the stored keys, those that were revoked included.
func (h *keyHandlers) keys(ctx context.Context) ([]auth.APIKey, error) {
	stored, err := h.store.APIKeys(ctx, h.namespace)
	if err != nil {
		return nil, err
	}
	all := []auth.APIKey{}
	for _, k := range h.configuredKeys() {
		shown := store.APIKey{Name: k.Name, Namespace: k.Namespace, Roles: k.Roles.Strings(), ExpiresAt: k.ExpiresAt}
		all = append(all, auth.APIKey{APIKey: shown, Source: auth.SourceConfigured})
	}
	for _, k := range stored {
		all = append(all, auth.APIKey{APIKey: k, Source: auth.SourceStored})
	}
	return all, nil
}

// configuredKeys returns the configured keys that are valid in this namespace.
func (h *keyHandlers) configuredKeys() []auth.Key {
	ring, ok := h.access.authenticator.(keyRing)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ring.Configured()), func(k auth.Key) bool { return k.Namespace != "" && k.Namespace != h.namespace })
}

func (h *keyHandlers) createKey(ctx context.Context, in *createKeyInput) (*newKeyOutput, error) {
	if err := h.needKeyRing(); err != nil {
		return nil, err
	}
	k := store.APIKey{Namespace: h.namespace, Name: in.Body.Name, ExpiresAt: in.Body.ExpiresAt}
	roles, err := auth.ParseRoles(in.Body.Roles)
	if err == nil {
		err = auth.ValidateName("name", k.Name)
	}
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	switch {
	case auth.FromContext(ctx).Kind == auth.KindLocal && !roles.Has(auth.RoleAdmin):
		return nil, refuse(http.StatusUnprocessableEntity, "body.roles",
			"must have admin: this is the first key, and from now on every request needs one")
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(time.Now()):
		return nil, refuse(http.StatusUnprocessableEntity, "body.expiresAt", "is in the past")
	case slices.ContainsFunc(h.configuredKeys(), func(c auth.Key) bool { return strings.EqualFold(c.Name, k.Name) }):
		return nil, huma.Error409Conflict(fmt.Sprintf("an API key %q is configured: choose another name", k.Name))
	}
	if err := h.access.identities.validateKey(ctx, k.Name); err != nil {
		return nil, h.problem(ctx, "", err)
	}
	if k.CreatedBy, err = actor(ctx, "", "", byAPI); err != nil {
		return nil, err
	}
	var token auth.Token
	k.ID, token = auth.NewToken()
	k.Roles, k.Hash = roles.Strings(), token.Hash()
	made, err := h.store.CreateAPIKey(ctx, k)
	if errors.Is(err, store.ErrExists) {
		return nil, huma.Error409Conflict(fmt.Sprintf("an API key %q already exists: rotate it, revoke it, or choose another name", k.Name))
	}
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	h.logger.Info("API key created", "key", made.ID, "name", made.Name, "roles", made.Roles, "by", made.CreatedBy)
	return newKey(made, token), nil
}

// needKeyRing returns an error if the authenticator does not accept stored keys.
func (h *keyHandlers) needKeyRing() error {
	if _, ok := h.access.authenticator.(keyRing); !ok {
		return huma.Error409Conflict("this server does not authenticate requests by API keys")
	}
	return nil
}

func (h *keyHandlers) rotateKey(ctx context.Context, in *rotateKeyInput) (*newKeyOutput, error) {
	if err := h.needKeyRing(); err != nil {
		return nil, err
	}
	var until time.Time
	if in.Body != nil && in.Body.Overlap != "" {
		overlap, err := time.ParseDuration(in.Body.Overlap)
		if err != nil || overlap < 0 || overlap > maxOverlap {
			return nil, refuse(http.StatusUnprocessableEntity, "body.overlap", "must be a duration of at most 168h, such as 1h")
		}
		until = time.Now().Add(overlap)
	}
	token := auth.TokenFor(in.ID)
	if _, _, err := auth.ParseToken(token.Reveal()); err != nil {
		return nil, unknownKey(in.ID)
	}
	k, err := h.store.RotateAPIKey(ctx, h.namespace, in.ID, token.Hash(), until)
	if err != nil {
		return nil, h.keyProblem(ctx, in.ID, err)
	}
	h.logger.Info("API key rotated", "key", k.ID, "name", k.Name, "by", auth.FromContext(ctx).Name)
	return newKey(k, token), nil
}

func (h *keyHandlers) revokeKey(ctx context.Context, in *KeyPath) (*struct{}, error) {
	if p := auth.FromContext(ctx); p.KeyID != "" && p.KeyID == in.ID {
		return nil, huma.Error409Conflict("the request is authenticated by this key: rotate it, or revoke it with another one")
	}
	by, err := actor(ctx, "", "", byAPI)
	if err != nil {
		return nil, err
	}
	k, err := h.store.RevokeAPIKey(ctx, h.namespace, in.ID, by)
	if err != nil {
		return nil, h.keyProblem(ctx, in.ID, err)
	}
	h.logger.Info("API key revoked", "key", k.ID, "name", k.Name, "by", k.RevokedBy)
	return nil, nil
}

func unknownKey(id string) error {
	return huma.Error404NotFound(fmt.Sprintf("there is no stored API key with the id %.64q, or it is revoked", id))
}

// keyProblem converts the error of an operation on an API key to a problem document.
func (h *keyHandlers) keyProblem(ctx context.Context, id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return unknownKey(id)
	}
	return h.problem(ctx, "", err)
}

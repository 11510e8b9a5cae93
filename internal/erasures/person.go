package erasures

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/internal/forget"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Kinds of documents for the erasure of people: receipts, which are never deleted, and requests, which name the person and are deleted
// with the receipt. The name of one is the id of the erasure.
const (
	KindPerson  = "person-erasure"
	KindRequest = "person-erasure-request"
)

// PersonRequest is a request to erase a person.
type PersonRequest struct {
	Person string   `json:"person"`
	Terms  []string `json:"terms,omitempty"`
}

// Pseudonym returns the name that replaces that of a person.
func Pseudonym(id string) string { return "erased-" + id }

// BeginPerson stores a request, and returns the id of the erasure and who asks for it: a pseudonym, if it is the person. The same
// request again returns the erasure in progress.
func BeginPerson(ctx context.Context, documents store.Documents, namespace string, req PersonRequest, by string) (id, asks string, err error) {
	p, err := forget.New(req.Person, "erased", req.Terms)
	if err != nil {
		return "", "", err
	}
	req.Terms = slices.Clone(req.Terms)
	slices.Sort(req.Terms)
	waiting, err := documents.Documents(ctx, namespace, KindRequest, "", store.MaxLimit)
	if err != nil {
		return "", "", err
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return "", "", err
	}
	id = newID()
	known := slices.IndexFunc(waiting, func(d store.Document) bool { return string(d.Content) == string(raw) })
	if known >= 0 {
		id = waiting[known].Name
	}
	if asks = by; p.Is(by) {
		asks = Pseudonym(id)
	}
	if known < 0 {
		_, err = documents.PutDocument(ctx, namespace, store.Document{Kind: KindRequest, Name: id, Content: raw, By: asks}, 0)
	}
	return id, asks, err
}

// newID returns an id that tells nothing of the person.
func newID() string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// Person returns the person of an erasure in progress, or store.ErrNotFound.
func Person(ctx context.Context, documents store.Documents, namespace, id string) (*forget.Person, error) {
	d, err := documents.Document(ctx, namespace, KindRequest, id)
	if err != nil {
		return nil, err
	}
	var req PersonRequest
	if err := json.Unmarshal(d.Content, &req); err != nil {
		return nil, fmt.Errorf("the request of erasure %s cannot be read: %w", id, err)
	}
	return forget.New(req.Person, Pseudonym(id), req.Terms)
}

// FinishPerson stores a receipt, unless an earlier attempt has done so, and deletes the request.
func FinishPerson(ctx context.Context, documents store.Documents, e signals.PersonErasure) (signals.PersonErasure, error) {
	before, err := LoadPerson(ctx, documents, e.Namespace, e.ID)
	switch {
	case err == nil:
		e = before
	case errors.Is(err, store.ErrNotFound):
		err = savePerson(ctx, documents, e)
	}
	if err == nil {
		err = documents.DeleteDocument(ctx, e.Namespace, KindRequest, e.ID, -1)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return e, err
}

func savePerson(ctx context.Context, documents store.Documents, e signals.PersonErasure) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = documents.PutDocument(ctx, e.Namespace, store.Document{Kind: KindPerson, Name: e.ID, Content: raw, By: e.By}, 0)
	return err
}

// LoadPerson returns the receipt of the erasure of a person, or store.ErrNotFound.
func LoadPerson(ctx context.Context, documents store.Documents, namespace, id string) (e signals.PersonErasure, err error) {
	d, err := documents.Document(ctx, namespace, KindPerson, id)
	if err == nil {
		e, err = decodePerson(d)
	}
	return e, err
}

// ListPeople returns the receipts of a namespace, at most store.MaxLimit, and the erasures in progress, which have not finished.
func ListPeople(ctx context.Context, documents store.Documents, namespace string) ([]signals.PersonErasure, error) {
	found, err := documents.Documents(ctx, namespace, KindPerson, "", store.MaxLimit)
	if err != nil {
		return nil, err
	}
	all := make([]signals.PersonErasure, 0, len(found))
	for _, d := range found {
		e, err := decodePerson(d)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	waiting, err := documents.Documents(ctx, namespace, KindRequest, "", store.MaxLimit)
	for _, d := range waiting {
		all = append(all, InProgress(namespace, d.Name, d.By, d.At))
	}
	return all, err
}

// InProgress returns what is known of an erasure that has not finished.
func InProgress(namespace, id, by string, requested time.Time) signals.PersonErasure {
	return signals.PersonErasure{
		ID: id, Namespace: namespace, Pseudonym: Pseudonym(id), By: by, RequestedAt: requested, Erased: []string{}, Forgot: []string{}, Remains: []signals.ErasureRemain{},
	}
}

func decodePerson(d store.Document) (e signals.PersonErasure, err error) {
	if err := json.Unmarshal(d.Content, &e); err != nil {
		return e, fmt.Errorf("the receipt of erasure %s cannot be read: %w", d.Name, err)
	}
	return e, nil
}

// PersonRemains are the places that the erasure of a person does not reach.
func PersonRemains() []signals.ErasureRemain {
	return append([]signals.ErasureRemain{
		{What: "what others and agents wrote about the person", Why: "without the terms of the erasure, nothing tells that it is about the person"},
		{What: "schedules of others", Why: "their messages may have a term: list and change them"},
		{What: "documents", Why: "what the person added to the knowledge belongs to its readers: delete it by its id"},
		{What: "API keys and the configuration", Why: "the name of a key, and names of approvers, are the operator's: revoke and remove them"},
	}, places()...)
}

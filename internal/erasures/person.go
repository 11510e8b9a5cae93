package erasures

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/threadmill/threadmill/internal/erasures/forget"
	"github.com/threadmill/threadmill/internal/job"
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

// request is what is stored of a request.
type request struct {
	PersonRequest

	// At is the time of the request, if it was changed since.
	At time.Time `json:"at,omitzero"`

	// Waiting are the threads that the erasure comes back to, oldest first.
	Waiting []Wait `json:"waiting,omitempty"`
}

// Wait is a thread that an erasure comes back to. Continued counts by thread, its sub-agents' included, how often one was told to continue
// as new while its run had begun with something of the person. Counts is what was replaced there.
type Wait struct {
	signals.PersonWait
	Continued map[string]int       `json:"continued,omitempty"`
	Counts    signals.PersonCounts `json:"counts,omitzero"`
}

// Pseudonym returns the name that replaces that of a person.
func Pseudonym(id string) string { return "erased-" + id }

// BeginPerson stores a request, and returns the erasure, by whoever asks for it: by a pseudonym, if it is the person. The same request
// again returns the erasure in progress.
func BeginPerson(ctx context.Context, documents store.Documents, namespace string, req PersonRequest, by string) (signals.PersonErasure, error) {
	p, err := forget.New(req.Person, "erased", req.Terms)
	if err != nil {
		return signals.PersonErasure{}, err
	}
	req.Terms = slices.Clone(req.Terms)
	slices.Sort(req.Terms)
	waiting, err := documents.Documents(ctx, namespace, KindRequest, "", store.MaxLimit)
	if err != nil {
		return signals.PersonErasure{}, err
	}
	asks := func(id string) string {
		if p.Is(by) {
			return Pseudonym(id)
		}
		return by
	}
	for _, d := range waiting {
		known, err := decodeRequest(d)
		if err != nil {
			return signals.PersonErasure{}, err
		}
		if known.Person == req.Person && slices.Equal(known.Terms, req.Terms) {
			d.By = asks(d.Name)
			return inProgress(namespace, d, known), nil
		}
	}
	raw, err := json.Marshal(request{PersonRequest: req})
	if err != nil {
		return signals.PersonErasure{}, err
	}
	id := newID()
	d, err := documents.PutDocument(ctx, namespace, store.Document{Kind: KindRequest, Name: id, Content: raw, By: asks(id)}, 0)
	return inProgress(namespace, d, request{}), err
}

// newID returns an id that tells nothing of the person.
func newID() string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// Person returns the person of an erasure in progress, or store.ErrNotFound. The person is nil if nothing was found any more and the
// request is forgotten: the erasure only has to clean the files and to store the receipt.
func Person(ctx context.Context, documents store.Documents, namespace, id string) (*forget.Person, error) {
	d, err := documents.Document(ctx, namespace, KindRequest, id)
	if err != nil {
		return nil, err
	}
	req, err := decodeRequest(d)
	if err != nil || req.Person == "" {
		return nil, err
	}
	return forget.New(req.Person, Pseudonym(id), req.Terms)
}

// ForgetRequest removes the person from the request, before the files are cleaned.
func ForgetRequest(ctx context.Context, documents store.Documents, namespace, id string) error {
	return changeRequest(ctx, documents, namespace, id, func(r *request) (changed bool) {
		changed = r.Person != ""
		*r = request{At: r.At}
		return changed
	})
}

// Waits returns what an erasure waits for in a thread: a zero Wait if it does not wait there.
func Waits(ctx context.Context, documents store.Documents, namespace, id, threadID string) (Wait, error) {
	d, err := documents.Document(ctx, namespace, KindRequest, id)
	if err != nil {
		return Wait{}, err
	}
	req, err := decodeRequest(d)
	for _, w := range req.Waiting {
		if w.ThreadID == threadID {
			return w, err
		}
	}
	return Wait{}, err
}

// WaitFor notes that an erasure comes back to a thread, or that it need not, without a reason. It reports whether that is new.
func WaitFor(ctx context.Context, documents store.Documents, namespace, id string, w Wait) (changed bool, err error) {
	err = changeRequest(ctx, documents, namespace, id, func(r *request) bool {
		at := slices.IndexFunc(r.Waiting, func(known Wait) bool { return known.ThreadID == w.ThreadID })
		switch {
		case w.Why == "" && at >= 0:
			r.Waiting, changed = slices.Delete(r.Waiting, at, at+1), true
		case w.Why == "":
			changed = false
		case at >= 0:
			w.Since = r.Waiting[at].Since
			changed = w.Why != r.Waiting[at].Why || w.Counts != r.Waiting[at].Counts || !maps.Equal(w.Continued, r.Waiting[at].Continued)
			r.Waiting[at] = w
		case r.Person == "" || len(r.Waiting) == job.MaxPersonWaits:
			changed = false
		default:
			r.Waiting, changed = append(r.Waiting, w), true
		}
		return changed
	})
	return changed, err
}

// changeRequest changes a request, unless there is none.
func changeRequest(ctx context.Context, documents store.Documents, namespace, id string, change func(*request) (changed bool)) error {
	for {
		d, err := documents.Document(ctx, namespace, KindRequest, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		req, err := decodeRequest(d)
		if req.At.IsZero() {
			req.At = d.At
		}
		if err != nil || !change(&req) {
			return err
		}
		version := d.Version
		if d.Content, err = json.Marshal(req); err != nil {
			return err
		}
		_, err = documents.PutDocument(ctx, namespace, d, version)
		if conflict, ok := errors.AsType[*store.ConflictError](err); !ok || conflict == nil {
			return err
		}
	}
}

func decodeRequest(d store.Document) (r request, err error) {
	if err := json.Unmarshal(d.Content, &r); err != nil {
		return r, fmt.Errorf("the request of erasure %s cannot be read: %w", d.Name, err)
	}
	return r, nil
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
	waiting, err := PeopleInProgress(ctx, documents, namespace)
	return append(all, waiting...), err
}

// PeopleInProgress returns the erasures that have not finished.
func PeopleInProgress(ctx context.Context, documents store.Documents, namespace string) (all []signals.PersonErasure, err error) {
	requests, err := documents.Documents(ctx, namespace, KindRequest, "", store.MaxLimit)
	if err != nil {
		return nil, err
	}
	for _, d := range requests {
		req, err := decodeRequest(d)
		if err != nil {
			return nil, err
		}
		all = append(all, inProgress(namespace, d, req))
	}
	return all, nil
}

// inProgress returns what is known of an erasure that has not finished.
func inProgress(namespace string, d store.Document, req request) signals.PersonErasure {
	out := signals.PersonErasure{
		ID: d.Name, Namespace: namespace, Pseudonym: Pseudonym(d.Name), By: d.By, RequestedAt: d.At, Erased: []string{}, Forgot: []string{}, Remains: []signals.ErasureRemain{},
	}
	if !req.At.IsZero() {
		out.RequestedAt = req.At
	}
	for _, w := range req.Waiting {
		out.Waiting = append(out.Waiting, w.PersonWait)
	}
	return out
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

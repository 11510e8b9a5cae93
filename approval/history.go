package approval

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// History is what a thread's records say of approvals. There is no other state: it is the
// same whenever and wherever it is read.
type History struct {
	calls map[string]standing

	// grants in the order in which they were given.
	grants []Grant

	// ran are the calls that have a result.
	ran map[string]bool

	unreadable []string
}

// standing is how a call stands after the last time that people were asked about it.
type standing struct {
	round int

	// decision ends the round; nil while it goes on, with these votes.
	decision *event.Approval
	votes    []event.Vote

	// revoked says that the decision was taken back.
	revoked bool
}

// ReadHistory reads records of types approval and, for which calls have run, message;
// others are passed over. They are of one thread, in any order.
//
// A record of an approval that cannot be read may have taken back any that came before: none
// of those holds any more, and people are asked again. See [History.Unreadable].
func ReadHistory(records []event.Record) History {
	h := History{calls: map[string]standing{}, ran: map[string]bool{}}
	for _, rec := range inOrder(records) {
		switch rec.Type {
		case event.TypeMessage:
			if id, ok := strings.CutSuffix(rec.ID, resultSuffix); ok {
				h.ran[id] = true
			}
		case event.TypeApproval:
			var a event.Approval
			if err := json.Unmarshal(rec.Payload, &a); err != nil {
				h.calls, h.grants, h.unreadable = map[string]standing{}, nil, append(h.unreadable, rec.ID)
				continue
			}
			if a.ThreadID == "" {
				// Otherwise it is of a sub-agent's thread, and holds there.
				h.add(a)
			}
		}
	}
	return h
}

// Unreadable are the ids of records of approvals that cannot be read.
func (h History) Unreadable() []string { return slices.Clone(h.unreadable) }

// resultSuffix makes the id of a call's result of the call's.
const resultSuffix = ".result"

// inOrder sorts records as they were stored. Those that are still to be stored have no
// place yet, and come last.
func inOrder(records []event.Record) []event.Record {
	place := func(r event.Record) int64 {
		if r.Seq == 0 {
			return math.MaxInt64
		}
		return r.Seq
	}
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b event.Record) int { return cmp.Compare(place(a), place(b)) })
	return sorted
}

func (h *History) add(a event.Approval) {
	id, round := a.ToolCallID, max(a.Round, 1)
	s := h.calls[id]
	switch {
	case a.Decision == event.ApprovalRevoked:
		s.revoked = s.decision != nil
		h.revoke(a)
	case round < s.round || round == s.round && s.decision != nil:
		return // late: the round has ended
	case a.Missing > 0:
		if round > s.round {
			s = standing{round: round}
		}
		s.votes = append(slices.Clone(s.votes), event.Vote{By: a.By, At: a.DecidedAt, Reason: a.Reason})
	default:
		s = standing{round: round, decision: &a}
		if a.Grant == id {
			break // by what the call itself was granted, which goes on
		}
		// What is decided now takes the place of what the same call was granted before.
		h.revoke(a)
		if g, ok := grantOf(a); ok {
			h.grants = append(h.grants, g)
		}
	}
	h.calls[id] = s
}

// revoke ends the grants that came with the call's approval.
func (h *History) revoke(a event.Approval) {
	for i := range h.grants {
		if g := &h.grants[i]; g.ID == a.ToolCallID && g.RevokedAt == nil {
			at := a.DecidedAt
			g.RevokedAt, g.RevokedBy = &at, a.By
		}
	}
}

// Grants are all that were given, the oldest first. A grant that another decision on its
// call has replaced counts as revoked by it.
func (h History) Grants() []Grant { return slices.Clone(h.grants) }

// FindSession returns a grant that covers the call, if there is one. Of several, it is the
// oldest.
func (h History) FindSession(c Call) (Grant, bool) {
	for _, g := range h.grants {
		if g.Covers(c) {
			return g, true
		}
	}
	return Grant{}, false
}

// FindFor is [History.FindSession] for a call about which people are asked on these terms:
// what one person has granted does not stand for several, nor for others who have to
// approve.
func (h History) FindFor(c Call, t Terms) (Grant, bool) {
	if t.Quorum > 1 {
		return Grant{}, false
	}
	for _, g := range h.grants {
		if g.Covers(c) && (len(t.Approvers) == 0 || slices.Contains(t.Approvers, g.By)) {
			return g, true
		}
	}
	return Grant{}, false
}

// FindOnce returns the approval of one call that has not been consumed: it holds, and the
// call has no result.
func (h History) FindOnce(toolCallID string) (event.Approval, bool) {
	s := h.calls[toolCallID]
	if h.ran[toolCallID] || s.decision == nil || s.revoked || s.decision.Decision != event.Approve {
		return event.Approval{}, false
	}
	if id := s.decision.Grant; id != "" && !h.holds(id) {
		return event.Approval{}, false
	}
	return *s.decision, true
}

// Revoked reports whether the approval of one call was taken back, and none given since. No
// grant covers such a call.
func (h History) Revoked(toolCallID string) bool { return h.calls[toolCallID].revoked }

// holds reports whether a grant was not revoked.
func (h History) holds(id string) bool {
	return slices.ContainsFunc(h.grants, func(g Grant) bool { return g.ID == id && g.RevokedAt == nil })
}

// ConsumeOnce is the history after the call has run.
func (h History) ConsumeOnce(toolCallID string) History {
	ran := maps.Clone(h.ran)
	if ran == nil {
		ran = map[string]bool{}
	}
	ran[toolCallID] = true
	h.ran = ran
	return h
}

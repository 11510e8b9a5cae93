package approval

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// History contains the approvals in a thread's records. There is no other state.
type History struct {
	calls map[string]standing

	// grants are the grants, oldest first.
	grants []Grant

	// ran are the calls that have a result.
	ran map[string]bool

	unreadable []string
}

// standing is the state of a call's last approval request.
type standing struct {
	round int

	// decision is the decision in the round; nil if the round is open, with the votes so far.
	decision *event.Approval
	votes    []event.Vote

	// revoked reports whether the decision was revoked.
	revoked bool
}

// ReadHistory reads the records of type approval and, to detect which calls have run, message; it
// ignores others. The records must be of one thread, in any order.
//
// An unreadable approval record may have revoked any earlier approval, so none of those counts any
// more and calls need new approvals. See [History.Unreadable].
func ReadHistory(records []event.Record) History {
	h := History{calls: map[string]standing{}, ran: map[string]bool{}}
	for _, rec := range inOrder(records) {
		switch rec.Type {
		case event.TypeMessage:
			if id, ok := recordid.CallOfResult(rec.ID); ok {
				h.ran[id] = true
			}
		case event.TypeApproval:
			var a event.Approval
			if err := json.Unmarshal(rec.Payload, &a); err != nil {
				h.calls, h.grants, h.unreadable = map[string]standing{}, nil, append(h.unreadable, rec.ID)
				continue
			}
			if a.ThreadID == "" {
				// Otherwise it belongs to a sub-agent's thread and counts there.
				h.add(a)
			}
		}
	}
	return h
}

// Unreadable returns the ids of unreadable approval records.
func (h History) Unreadable() []string { return slices.Clone(h.unreadable) }

// inOrder sorts records by Seq. Records that are not stored yet have none and come last.
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
	case a.Decision == event.DecisionRevoked:
		s.revoked = s.decision != nil
		h.revoke(a)
	case round < s.round || round == s.round && s.decision != nil:
		return // too late: the round has ended
	case a.Missing > 0:
		if round > s.round {
			s = standing{round: round}
		}
		s.votes = append(slices.Clone(s.votes), event.Vote{By: a.By, At: a.DecidedAt, Reason: a.Reason})
	default:
		s = standing{round: round, decision: &a}
		if a.Grant == id {
			break // covered by the call's own grant, which remains
		}
		// A new decision replaces the grant of an earlier one on the same call.
		h.revoke(a)
		if g, ok := grantOf(a); ok {
			h.grants = append(h.grants, g)
		}
	}
	h.calls[id] = s
}

// revoke ends the grants of the call's approval.
func (h *History) revoke(a event.Approval) {
	for i := range h.grants {
		if g := &h.grants[i]; g.ID == a.ToolCallID && g.RevokedAt == nil {
			at := a.DecidedAt
			g.RevokedAt, g.RevokedBy = &at, a.By
		}
	}
}

// Grants returns all grants, oldest first. A grant that a later decision on the same call replaced
// counts as revoked.
func (h History) Grants() []Grant { return slices.Clone(h.grants) }

// FindFor returns the oldest grant that covers a call which needs approval on these terms, if any: a
// grant by one person does not count if several people, or others, must approve.
func (h History) FindFor(c Call, t Terms) (Grant, bool) {
	if t.Quorum > 1 {
		return Grant{}, false
	}
	for _, g := range h.grants {
		if g.Covers(c) && t.MayApprove(g.By) {
			return g, true
		}
	}
	return Grant{}, false
}

// FindOnce returns the approval of one call that has not run, if there is a valid one.
func (h History) FindOnce(toolCallID string) (event.Approval, bool) {
	s := h.calls[toolCallID]
	if h.ran[toolCallID] || s.decision == nil || s.revoked || s.decision.Decision != event.DecisionApprove {
		return event.Approval{}, false
	}
	if id := s.decision.Grant; id != "" && !h.holds(id) {
		return event.Approval{}, false
	}
	return *s.decision, true
}

// Revoked reports whether the approval of one call was revoked and not given again. No grant covers
// such a call.
func (h History) Revoked(toolCallID string) bool { return h.calls[toolCallID].revoked }

// holds reports whether a grant has not been revoked.
func (h History) holds(id string) bool {
	return slices.ContainsFunc(h.grants, func(g Grant) bool { return g.ID == id && g.RevokedAt == nil })
}

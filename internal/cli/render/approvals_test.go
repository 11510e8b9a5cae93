package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals/threadclient"
)

func TestApprovalTables(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := at.Add(time.Hour)
	opts := TableOptions{Width: 20, Location: time.UTC}
	plain := event.ApprovalRequest{ToolCallID: "c1", ToolName: "shell_cmd", Arguments: `{"command":"cat a-long-name.txt"}`, Agent: "demo", RequestedAt: at}
	whole := plain
	whole.ToolCallID, whole.Reason, whole.ExpiresAt, whole.Round, whole.WorkingDirectory = "c2", "it always\nasks", &later, 2, "/desk"
	whole.Approvers, whole.Quorum, whole.Votes = []string{"ann", "bob"}, 2, []event.Vote{{By: "ann"}}

	t.Run("S4-77 what waits", func(t *testing.T) {
		require.Equal(t, `THREAD  CALL  TOOL       ARGUMENTS             AGENT  REASON  SINCE                EXPIRES  VOTES
t1      c1    shell_cmd  {"command":"cat a-l…  demo   -       2026-01-02 03:04:05  -        -
`, Approvals([]threadclient.WaitingApproval{{ThreadID: "t1", Request: plain}}, opts))
	})
	t.Run("S4-77 with all that a call can have", func(t *testing.T) {
		require.Equal(t, `THREAD  CALL  TOOL       ARGUMENTS                          AGENT  REASON          SINCE                EXPIRES              VOTES        ROUND  DIRECTORY  APPROVERS
t1      c1    shell_cmd  {"command":"cat a-long-name.txt"}  demo   -               2026-01-02 03:04:05  -                    -            -      -          -
t2      c2    shell_cmd  {"command":"cat a-long-name.txt"}  demo   it always asks  2026-01-02 03:04:05  2026-01-02 04:04:05  1 of 2: ann  2      /desk      ann, bob
`, Approvals([]threadclient.WaitingApproval{{ThreadID: "t1", Request: plain}, {ThreadID: "t2", Request: whole}}, TableOptions{Location: time.UTC}))
	})
	t.Run("calls for clients", func(t *testing.T) {
		call := event.ClientCall{ToolCallID: "c3", ToolName: "camera", Arguments: "{\"a\":\"\x1b[2J\"}", Agent: "demo", RequestedAt: at, ExpiresAt: later}
		require.Equal(t, `THREAD  CLIENT CALL  TOOL    ARGUMENTS          AGENT  SINCE                EXPIRES
t1      c3           camera  {"a":"\u001b[2J"}  demo   2026-01-02 03:04:05  2026-01-02 04:04:05
`, ClientCalls([]threadclient.WaitingCall{{ThreadID: "t1", Call: call}}, opts))
	})
	t.Run("grants", func(t *testing.T) {
		session := approval.Grant{ID: "c1", Scope: event.ScopeSession, ToolName: "shell_cmd", Agent: "demo", By: "ann", GrantedAt: at}
		pattern := approval.Grant{ID: "c2", Scope: event.ScopePattern, ToolName: "write_file", Agent: "demo", By: "ann", GrantedAt: at, Pattern: map[string]string{"path": "docs/**", "mode": "w"}, RevokedAt: &later, RevokedBy: "bob"}
		require.Equal(t, `GRANT  SCOPE    TOOL       AGENT  COVERS         BY   GRANTED
c1     session  shell_cmd  demo   the same call  ann  2026-01-02 03:04:05
`, Grants([]approval.Grant{session}, opts))
		require.Equal(t, `GRANT  SCOPE    TOOL        AGENT  COVERS               BY   GRANTED              REVOKED              REVOKED BY
c1     session  shell_cmd   demo   the same call        ann  2026-01-02 03:04:05  -                    -
c2     pattern  write_file  demo   mode=w path=docs/**  ann  2026-01-02 03:04:05  2026-01-02 04:04:05  bob
`, Grants([]approval.Grant{session, pattern}, opts))
	})
	t.Run("nothing is nothing", func(t *testing.T) {
		require.Empty(t, Approvals(nil, opts))
		require.Empty(t, ClientCalls(nil, opts))
		require.Empty(t, Grants(nil, opts))
	})
}

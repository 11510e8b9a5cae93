package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestToolServer(t *testing.T) {
	for name, want := range map[string]string{
		"files__read": "files", "files__*": "files", "my-files__read__all": "my-files", "files___x": "files",
		"read": "", "my_files__read": "", "__read": "", "files__": "", "*": "", "": "",
	} {
		server, ok := event.ToolServer(name)
		require.Equal(t, want, server, name)
		require.Equal(t, want != "", ok, name)
	}
}

func TestMatchTool(t *testing.T) {
	for _, pattern := range []string{"files__read", "files__*"} {
		require.True(t, event.MatchTool(pattern, "files__read"), pattern)
	}
	require.True(t, event.MatchTool("files__*", "files__*"))
	for _, c := range [][2]string{
		{"files__*", "files2__read"},
		{"files__*", "files_read"},
		{"files__*", "files__"},
		{"files__*", "Files__read"},
		{"*", "read"},
		{"files__read*", "files__read_all"},
		{"files__read", "files__read_all"},
		{"files__read", "files__*"},
		{"f*", "files__read"},
	} {
		require.False(t, event.MatchTool(c[0], c[1]), "%v", c)
	}
	require.True(t, event.MatchTools([]string{"clock", "files__*"}, "files__read"))
	require.False(t, event.MatchTools(nil, "files__read"))
}

func TestCommonTools(t *testing.T) {
	own := []string{"clock", "files__*", "web__get", "files__read"}
	require.Empty(t, event.CommonTools(own, nil))
	require.Equal(t, []string{"clock"}, event.CommonTools(own, []string{"clock", "shell"}))
	require.Equal(t, []string{"files__*", "files__read"}, event.CommonTools(own, []string{"files__*"}))
	require.Equal(t, []string{"files__read", "web__get"}, event.CommonTools(own, []string{"files__read", "web__*"}))
}

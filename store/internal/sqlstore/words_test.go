package sqlstore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, words, query string }{
		{"Résumé (STRASSE)!", "resume strasse", "resume strasse"},
		{"straße ﬁne ＡＢＣ", "strasse fine abc", "strasse fine abc"},
		{"付款3次", "付 款 付款 3 次", "付款 3 次"},
		{"カード", "カー ード", "カー ード"},
		{"กินข้าว", "กิน นข้ ข้า าว", "กิน นข้ ข้า าว"},
		{"하다", "하다", "하다"},
		{"コン\nピュ 一", "コン ンピ ピュ 一 ュ一", "コン ピュ 一"},
		{"雨 あ  い a", "あ い 雨 雨あ あい a", "雨 あ い a"},
		{"하다 가다", "하다 가다", "하다 가다"},
	} {
		require.Equal(t, c.words, strings.Join(strings.Fields(TextWords(c.text)), " "), c.text)
		require.Equal(t, c.query, strings.Join(strings.Fields(QueryWords(c.text)), " "), c.text)
	}
}

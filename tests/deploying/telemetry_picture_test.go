package deploying

import (
	"fmt"
	"html"
	"strings"
)

// picture draws a trace as SVG: a bar for each span, in the colour of its process.
func picture(spans []row) string {
	const width, left, line, top = 960, 330, 26, 44
	begin, end := spans[0].StartTimestamp().AsTime(), spans[0].EndTimestamp().AsTime()
	for _, s := range spans {
		if at := s.EndTimestamp().AsTime(); at.After(end) {
			end = at
		}
	}
	total := end.Sub(begin).Seconds()
	scale := (width - left - 110) / total
	colours := map[string]string{"api": "#5b6ee1", "first": "#2f9e6e", "second": "#d9822b"}
	names := map[string]string{"api": "API", "first": "worker, until it ended", "second": "another worker"}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="13" fill="#222">`+"\n", width, top+line*len(spans)+12)
	out.WriteString(`<title>The trace of a turn with an approval</title><rect width="100%" height="100%" fill="#fff"/>` + "\n")
	at := 16
	for _, service := range []string{"api", "first", "second"} {
		fmt.Fprintf(&out, `<rect x="%d" y="12" width="12" height="12" rx="2" fill="%s"/><text x="%d" y="22">%s</text>`+"\n", at, colours[service], at+18, names[service])
		at += 40 + 8*len(names[service])
	}
	for i, s := range spans {
		y := top + line*i
		if i%2 == 0 {
			fmt.Fprintf(&out, `<rect y="%d" width="100%%" height="%d" fill="#f6f7f9"/>`+"\n", y, line)
		}
		from, took := s.StartTimestamp().AsTime().Sub(begin).Seconds(), s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()).Seconds()
		x, w := left+from*scale, max(took*scale, 2)
		fmt.Fprintf(&out, `<text x="%d" y="%d">%s</text>`, 16+16*s.depth, y+18, html.EscapeString(s.Name()))
		fmt.Fprintf(&out, `<rect x="%.1f" y="%d" width="%.1f" height="14" rx="2" fill="%s"/>`, x, y+6, w, colours[s.service])
		fmt.Fprintf(&out, `<text x="%.1f" y="%d" fill="#666" font-size="12">%s</text>`+"\n", x+w+6, y+18, duration(took))
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func duration(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.0f ms", seconds*1000)
	}
	return fmt.Sprintf("%.1f s", seconds)
}

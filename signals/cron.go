package signals

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronField is one of the five fields of a cron expression.
type cronField struct {
	name     string
	min, max int
	names    []string // names of the values, from min
}

var cronFields = []cronField{
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var cronShorthands = []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}

// checkCron reports why a cron expression is invalid. Temporal also accepts years, seconds, time
// zones and intervals, which have separate fields in a schedule or no use.
func checkCron(c string) error {
	if strings.HasPrefix(c, "@") {
		if !slices.Contains(cronShorthands, c) {
			return fmt.Errorf("%.64q is not one of %s", c, strings.Join(cronShorthands, ", "))
		}
		return nil
	}
	texts := strings.Fields(c)
	if len(texts) != len(cronFields) {
		return fmt.Errorf("%.64q has %d fields, must have five: minute, hour, day of month, month, day of week", c, len(texts))
	}
	for i, f := range cronFields {
		for part := range strings.SplitSeq(texts[i], ",") {
			if err := f.check(part); err != nil {
				return fmt.Errorf("the %s %.64q %w", f.name, part, err)
			}
		}
	}
	return nil
}

// check checks one element of a list: *, 5, 1-5, */10, 1-30/10.
func (f cronField) check(part string) error {
	part, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n < 1 || n > f.max {
			return fmt.Errorf("has a step that is not 1 to %d", f.max)
		}
	}
	if part == "*" {
		return nil
	}
	from, to, ranged := strings.Cut(part, "-")
	low, err := f.value(from)
	if err != nil || !ranged {
		return err
	}
	high, err := f.value(to)
	if err == nil && high < low {
		return errors.New("is a range that ends before it begins")
	}
	return err
}

func (f cronField) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max || text[0] == '+' {
		return 0, f.outside()
	}
	return n, nil
}

func (f cronField) outside() error {
	if f.names != nil {
		return fmt.Errorf("is not %d to %d or %s to %s", f.min, f.max, f.names[0], f.names[len(f.names)-1])
	}
	return fmt.Errorf("is not %d to %d", f.min, f.max)
}

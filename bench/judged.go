package main

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// judged is a set of passages, and of questions whose answers are known.
type judged struct {
	name      string
	passages  []judgedPassage
	questions []question
}

// judgedPassage is one chunk of a document of its own.
type judgedPassage struct {
	id   string
	path []string
	text string
}

// question has grades of the passages that answer it: the greater, the better.
type question struct {
	// kind groups the questions of a set.
	kind   string
	text   string
	grades map[string]int
}

// handbook has the documents and the questions of the project's own sets.
//
//go:embed testdata/handbook
var handbook embed.FS

const (
	handbookName   = "handbook"
	handbookFolder = "testdata/handbook"
)

// languages are those of the project's own sets: a part of the English one, "", is translated.
var languages = []string{"", "de", "ja", "zh"}

// ownSet returns the project's own set in a language. A passage is a section of a document; "file.md#Heading" is its id.
func ownSet(language string) (judged, error) {
	set, folder := judged{name: handbookName}, path.Join(handbookFolder, language)
	if language != "" {
		set.name += "-" + language
	}
	files, err := fs.Glob(handbook, folder+"/*.md")
	if err != nil {
		return set, err
	}
	for _, file := range files {
		content, err := handbook.ReadFile(file)
		if err != nil {
			return set, err
		}
		set.passages = append(set.passages, sections(path.Base(file), string(content))...)
	}
	content, err := handbook.ReadFile(folder + "/questions.jsonl")
	if err != nil {
		return set, err
	}
	type entry struct {
		Kind     string         `json:"kind"`
		Question string         `json:"question"`
		Answers  map[string]int `json:"answers"`
	}
	err = eachJSON(bytes.NewReader(content), func(e entry) { set.add(e.Kind, e.Question, e.Answers) })
	return set, errors.Join(err, set.check(), set.checkAnswers())
}

// sections cuts a document before each heading of the second level.
func sections(file, content string) []judgedPassage {
	parts := strings.Split("\n"+content, "\n## ")
	title := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(parts[0]), "# "))
	passages := make([]judgedPassage, 0, len(parts)-1)
	for _, part := range parts[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		passages = append(passages, judgedPassage{file + "#" + heading, []string{title, heading}, strings.TrimSpace(text)})
	}
	return passages
}

// beirSet returns the set in a folder of BEIR's format: corpus.jsonl, queries.jsonl and qrels/test.tsv. Questions without
// grades are left out.
func beirSet(folder string) (judged, error) {
	set := judged{name: filepath.Base(folder)}
	type entry struct {
		ID    string `json:"_id"`
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	err := eachLine(filepath.Join(folder, "corpus.jsonl"), func(e entry) {
		p := judgedPassage{id: e.ID, text: e.Text}
		if title := strings.TrimSpace(e.Title); title != "" {
			p.path = []string{title}
		}
		set.passages = append(set.passages, p)
	})
	if err != nil {
		return set, err
	}
	grades, err := qrels(filepath.Join(folder, "qrels", "test.tsv"))
	if err != nil {
		return set, err
	}
	err = eachLine(filepath.Join(folder, "queries.jsonl"), func(e entry) {
		if len(grades[e.ID]) > 0 {
			set.add("", e.Text, grades[e.ID])
		}
	})
	return set, errors.Join(err, set.check())
}

// qrels reads the grades of passages by question. The first line names the columns.
func qrels(file string) (map[string]map[string]int, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = '\t', true, 3
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	grades := map[string]map[string]int{}
	for _, row := range rows[min(1, len(rows)):] {
		grade, err := strconv.Atoi(row[2])
		if err != nil {
			return nil, fmt.Errorf("%s: the grade %q is no number", file, row[2])
		}
		if grades[row[0]] == nil {
			grades[row[0]] = map[string]int{}
		}
		grades[row[0]][row[1]] = grade
	}
	return grades, nil
}

func eachLine[T any](file string, f func(T)) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := eachJSON(in, f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// eachJSON calls f for each of the values of in.
func eachJSON[T any](in io.Reader, f func(T)) error {
	values := json.NewDecoder(bufio.NewReader(in))
	for {
		var v T
		if err := values.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		f(v)
	}
}

func (s *judged) add(kind, text string, grades map[string]int) {
	s.questions = append(s.questions, question{kind, strings.TrimSpace(text), grades})
}

// check reports what makes a set useless.
func (s *judged) check() error {
	known := map[string]bool{}
	for _, p := range s.passages {
		if known[p.id] {
			return fmt.Errorf("%s: two passages have the id %q", s.name, p.id)
		}
		known[p.id] = true
	}
	if len(s.questions) == 0 {
		return fmt.Errorf("%s: has no questions with grades", s.name)
	}
	return nil
}

// checkAnswers reports answers that are no passages.
func (s *judged) checkAnswers() error {
	known := map[string]bool{}
	for _, p := range s.passages {
		known[p.id] = true
	}
	for _, q := range s.questions {
		for id := range q.grades {
			if !known[id] {
				return fmt.Errorf("%s: %q is answered by %q, which is no passage", s.name, q.text, id)
			}
		}
	}
	return nil
}

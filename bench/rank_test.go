package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNDCG(t *testing.T) {
	grades := map[string]int{"a": 2, "b": 1, "c": 0}
	for _, of := range []struct {
		ranked string
		k      int
		want   float64
	}{
		{"ab", 10, 1},
		{"abc", 10, 1},
		// 2/log2(2) + 1/log2(3) is the best: 2 + 0.63093.
		{"ba", 10, (1 + 2*0.63093) / 2.63093},
		{"xa", 10, 2 * 0.63093 / 2.63093},
		// log2(4) is 2, and log2(5) is 2.32193.
		{"xxab", 10, (2/2.0 + 1/2.32193) / 2.63093},
		// Of one place, the best is 2.
		{"ba", 1, 0.5},
		{"xa", 1, 0},
		{"c", 10, 0},
		{"", 10, 0},
	} {
		require.InDelta(t, of.want, ndcg(letters(of.ranked), grades, of.k), 1e-5, "%s at %d", of.ranked, of.k)
	}
	require.Zero(t, ndcg(letters("abc"), map[string]int{"c": 0}, 10))
}

func TestRecall(t *testing.T) {
	grades := map[string]int{"a": 2, "b": 1, "c": 0, "d": 1}
	for _, of := range []struct {
		ranked string
		k      int
		want   float64
	}{
		{"abd", 3, 1},
		{"xdba", 4, 1},
		{"xdba", 3, 2.0 / 3},
		{"xdba", 1, 0},
		{"c", 100, 0},
		{"", 100, 0},
	} {
		require.InDelta(t, of.want, recall(letters(of.ranked), grades, of.k), 1e-9, "%s at %d", of.ranked, of.k)
	}
	require.Zero(t, recall(letters("c"), map[string]int{"c": 0}, 1))
}

func TestMean(t *testing.T) {
	require.InDelta(t, 2, mean([]float64{1, 2, 3}), 1e-9)
	require.Zero(t, mean(nil))
}

func letters(s string) []string {
	var ids []string
	for _, r := range s {
		ids = append(ids, string(r))
	}
	return ids
}

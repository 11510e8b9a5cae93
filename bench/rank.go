package main

import (
	"math"
	"slices"
)

// ndcg returns the normalized discounted cumulative gain of the first k ids of a ranking, the best first: 1 if no ranking
// is better. The gain of an id is its grade, and the discount of rank i is log2(i+1), as in BEIR. It is 0 if nothing has a
// grade.
func ndcg(ranked []string, grades map[string]int, k int) float64 {
	got := make([]int, 0, k)
	for _, id := range ranked[:min(k, len(ranked))] {
		got = append(got, grades[id])
	}
	var best []int
	for _, grade := range grades {
		best = append(best, max(grade, 0))
	}
	slices.SortFunc(best, func(a, b int) int { return b - a })
	most := gain(best[:min(k, len(best))])
	if most == 0 {
		return 0
	}
	return gain(got) / most
}

func gain(grades []int) (sum float64) {
	for i, grade := range grades {
		sum += float64(grade) / math.Log2(float64(i+2))
	}
	return sum
}

// recall returns which share of the ids that have a grade are among the first k of a ranking. It is 0 if none has one.
func recall(ranked []string, grades map[string]int, k int) float64 {
	relevant, found := 0, 0
	for id, grade := range grades {
		if grade <= 0 {
			continue
		}
		relevant++
		if slices.Contains(ranked[:min(k, len(ranked))], id) {
			found++
		}
	}
	if relevant == 0 {
		return 0
	}
	return float64(found) / float64(relevant)
}

// mean returns the mean of values; 0 for none.
func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

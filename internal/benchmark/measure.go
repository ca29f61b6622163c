package main

import (
	"slices"
	"time"
)

// measure is one line of the result.
type measure struct {
	Name      string         `json:"name"`
	Ours      float64        `json:"ours"`
	Reference float64        `json:"reference"`
	Ratio     float64        `json:"ratio"`
	Target    float64        `json:"target"`
	Rounds    int            `json:"rounds"`
	Unit      string         `json:"unit"`
	Detail    map[string]any `json:"detail,omitempty"`
}

// print writes the line.
func (m measure) print() error { return printLine(m) }

// samples are the rounds of one side, in seconds or in what unit says.
type samples []float64

func (s *samples) add(d time.Duration) { *s = append(*s, d.Seconds()) }

// median is the middle one.
func (s samples) median() float64 { return s.quantile(0.5) }

// quantile is the smallest sample that so large a part of all does not exceed.
func (s samples) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// compare makes the measure of two sides, rounded to what a reader can use.
func compare(name string, target float64, unit string, ours, reference samples) measure {
	m := measure{Name: name, Ours: round(ours.median()), Reference: round(reference.median()), Target: target, Rounds: len(ours), Unit: unit,
		Detail: map[string]any{"ours": rounded(ours), "reference": rounded(reference)}}
	if reference.median() > 0 {
		m.Ratio = round(ours.median() / reference.median())
	}
	return m
}

func rounded(s samples) []float64 {
	out := make([]float64, len(s))
	for i, v := range s {
		out[i] = round(v)
	}
	return out
}

func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

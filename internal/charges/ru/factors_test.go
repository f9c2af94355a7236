package ru_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
)

// Each kind of operation is multiplied with its own factor; one that is not known changes nothing.
func TestFactorsCorrectAModel(t *testing.T) {
	by := ru.Factors{Read: 2, Write: 0.5}
	for _, m := range []ru.Model{ru.Stepped, ru.Sloped} {
		c := m.Corrected(by)
		require.InDelta(t, 2*m.Read(40*kb), c.Read(40*kb), 1e-9)
		require.InDelta(t, m.Write(40*kb, 6)/2, c.Write(40*kb, 6), 1e-9)
		require.InDelta(t, m.Replace(kb, 2*kb, 3)/2, c.Replace(kb, 2*kb, 3), 1e-9)
		require.InDelta(t, m.Query(ru.QueryWork{Docs: 3}), c.Query(ru.QueryWork{Docs: 3}), 1e-9)
		require.Equal(t, m.Other().Corrected(by), c.Other())
		require.Equal(t, m.String(), c.String())
	}
	nothing := ru.QueryWork{}
	require.InDelta(t, 3*ru.Stepped.Query(nothing), ru.Stepped.Corrected(ru.Factors{Query: 3}).Query(nothing), 1e-9)
}

// What is no file of factors is refused.
func TestParseFactors(t *testing.T) {
	f, err := ru.ParseFactors([]byte(`{"at":"now","factors":{"write":1.25}}`))
	require.NoError(t, err)
	require.Equal(t, ru.Factors{Write: 1.25}, f)
	require.Equal(t, "reads 1.000, writes 1.250, queries 1.000", f.String())
	for text, why := range map[string]string{
		`{}`: "has no factors", `{"factors":{"read":-1}}`: "the factor -1 of read", `{"factors":{"query":1000}}`: "1000",
		`no`: "invalid",
	} {
		_, err := ru.ParseFactors([]byte(text))
		require.ErrorContains(t, err, why)
	}
}

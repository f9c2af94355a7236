package nearest_test

import (
	"testing"

	"binnacle/internal/text/nearest"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	names := []string{"velocity", "fuel_state", "fuel_consumption", "load"}
	for text, want := range map[string]string{
		"Velocity": "velocity", "velocty": "velocity", "fuel": "fuel_state", "fuel_consumtion": "fuel_consumption",
		"x": "", "": "", "temperature": "",
	} {
		require.Equal(t, want, nearest.Name(text, names), text)
	}
	require.Empty(t, nearest.Name("velocity", nil))
	flags := []string{"kafka", "kafka-client-id", "memory-mb", "queries-memory-mb", "admin-token-file", "hold", "topic"}
	for given, want := range map[string]string{
		"kafka-brokers": "kafka", "tokenfile": "admin-token-file", "memory": "memory-mb", "kafka-clientid": "kafka-client-id",
		"topics": "topic", "nosuch": "", "x": "", "max-hold": "hold",
	} {
		require.Equal(t, want, nearest.Name(given, flags), given)
	}
}

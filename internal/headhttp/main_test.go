package headhttp_test

import (
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zip is bytes as a zstd stream.
func zip(t *testing.T, b []byte) []byte {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer w.Close()
	return w.EncodeAll(b, nil)
}

package decode

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// header returns the text of the last header of a name, in any case; empty for a missing one.
func header(headers []Header, name string) string { return amqpText(rawHeader(headers, name)) }

func rawHeader(headers []Header, name string) []byte {
	for i := len(headers) - 1; i >= 0; i-- {
		if k := headers[i].Key; len(k) == len(name) && strings.EqualFold(k, name) {
			return headers[i].Value
		}
	}
	return nil
}

// amqpText returns the text of a property that came by AMQP: Event Hubs passes such properties to Kafka as AMQP
// encodes them. Text in none of these encodings is returned as it is.
func amqpText(b []byte) string {
	if len(b) < 2 {
		return string(b)
	}
	switch b[0] {
	case 0xA1, 0xA3: // string and symbol of up to 255 bytes
		if len(b) == 2+int(b[1]) {
			return string(b[2:])
		}
	case 0xB1, 0xB3: // longer ones
		if len(b) >= 5 && uint64(len(b)) == 5+uint64(binary.BigEndian.Uint32(b[1:])) {
			return string(b[5:])
		}
	case 0x83, 0x81: // timestamp in milliseconds, long
		if len(b) == 9 {
			return strconv.FormatInt(int64(binary.BigEndian.Uint64(b[1:])), 10)
		}
	case 0x55: // a long of one byte
		if len(b) == 2 {
			return strconv.Itoa(int(int8(b[1])))
		}
	}
	return string(b)
}

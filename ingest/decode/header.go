package decode

import "strings"

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// header returns the text of the last header of a name, in any case; empty for a missing one.
func header(headers []Header, name string) string {
	for i := len(headers) - 1; i >= 0; i-- {
		if strings.EqualFold(headers[i].Key, name) {
			return amqpText(headers[i].Value)
		}
	}
	return ""
}

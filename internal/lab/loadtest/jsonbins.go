package loadtest

import (
	"bytes"
	"strconv"

	"binnacle/sharding"
)

// jsonBins is what the guidance calls binning: the readings of a device wait in memory until there are 100 of them,
// which are written as one document of JSON. There is no journal.
type jsonBins struct {
	size int
	open map[string]*jsonBin
}

type jsonBin struct {
	id       string
	body     []byte
	readings int
	room     int // for further readings
}

// hundred is how many readings a document has, unless a hold has fewer.
const hundred = 100

func newJSONBins(cfg Config) jsonBins {
	return jsonBins{max(1, min(hundred, int(cfg.Hold/cfg.Interval))), map[string]*jsonBin{}}
}

// add returns the document that a reading fills. The first document of a device is shorter, by the device's hash, so
// that documents come evenly.
func (b jsonBins) add(m message) (d document, full bool) {
	bin := b.open[m.device]
	if bin == nil {
		bin = &jsonBin{room: b.size - sharding.GroupOf(m.device, b.size)}
		b.open[m.device] = bin
	}
	if bin.readings == 0 {
		at := strconv.FormatInt(m.at.UnixMilli(), 10)
		bin.id = m.device + "." + at
		bin.body = append(bin.body, `{"id":"`+bin.id+`","tenant":"`+m.tenant+`","device":"`+m.device+`","ts":`+at+
			`,"readings":[`...)
	} else {
		bin.body = append(bin.body, ',')
	}
	bin.body = append(append(bin.body, '{'), m.json[bytes.Index(m.json, []byte(`"ts":`)):]...)
	if bin.readings++; bin.readings < bin.room {
		return document{}, false
	}
	b.open[m.device] = &jsonBin{room: b.size}
	return document{key: []string{m.tenant, m.device}, id: bin.id, body: append(bin.body, "]}"...), due: m.due,
		readings: bin.readings}, true
}

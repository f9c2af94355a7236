package decode

// Lookups returns how many properties of messages were not where they were before, and so looked up.
func (d *Decoder) Lookups() int { return d.readerOf(JSON).(*jsonReader).lookups }

// Devices is how many device ids are remembered, and what they count as; of MostDeviceBytes.
func (d *Decoder) Devices() (n, bytes int) { return d.devices.n, d.devices.bytes }

const MostDeviceBytes = deviceBytes

// LineLookups does for heads and fields of lines what Lookups does for messages.
func (d *Decoder) LineLookups() int { return d.readerOf(Line).(*lineReader).lookups }

// Panicked begins the detail of a record on which a decoder has panicked.
const Panicked = panicked

package decode

// Fits returns how many messages were read by a template.
func (d *Decoder) Fits() int { return d.readerOf(JSON).(*jsonReader).templates.fits }

// Devices is how many device ids are remembered, and what they count as; of MostDeviceBytes.
func (d *Decoder) Devices() (n, bytes int) { return len(d.devices.known), d.devices.bytes }

const MostDeviceBytes = deviceBytes

// LineFits returns how many lines were read by a template, of LineTries.
func (d *Decoder) LineFits() int { return d.readerOf(Line).(*lineReader).templates.fits }

func (d *Decoder) LineTries() int { return d.readerOf(Line).(*lineReader).templates.tried }

// WithoutTemplates leaves all to the walk through the text.
func (d *Decoder) WithoutTemplates() {
	d.readerOf(JSON).(*jsonReader).templates.off = true
	d.readerOf(Line).(*lineReader).templates.off = true
}

// Panicked begins the detail of a record on which a decoder has panicked.
const Panicked = panicked

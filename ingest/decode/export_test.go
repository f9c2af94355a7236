package decode

// Fits is how many messages were read by a stencil.
func (d *Decoder) Fits() int { return d.templates.fits }

// Devices is how many device ids are remembered, and what they count as; of MostDeviceBytes.
func (d *Decoder) Devices() (n, bytes int) { return len(d.devices.known), d.devices.bytes }

const MostDeviceBytes = deviceBytes

// LineFits is how many lines were read by a stencil, of LineTries.
func (d *Decoder) LineFits() int { return d.lineTemplates.fits }

func (d *Decoder) LineTries() int { return d.lineTemplates.tried }

// WithoutStencils leaves all to the walk through the text.
func (d *Decoder) WithoutStencils() { d.templates.off, d.lineTemplates.off = true, true }

package decode

// Fits is how many messages were read by a stencil.
func (d *Decoder) Fits() int { return d.stencils.fits }

// Devices is how many device ids are remembered, and what they count as; of MostDeviceBytes.
func (d *Decoder) Devices() (n, bytes int) { return len(d.devices.known), d.devices.bytes }

const MostDeviceBytes = deviceBytes

// LineFits is how many lines were read by a stencil, of LineTries.
func (d *Decoder) LineFits() int { return d.lineStencils.fits }

func (d *Decoder) LineTries() int { return d.lineStencils.tried }

// WithoutStencils leaves all to the walk through the text.
func (d *Decoder) WithoutStencils() { d.stencils.off, d.lineStencils.off = true, true }

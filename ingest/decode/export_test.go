package decode

// Fits is how many messages were read by a stencil.
func (d *Decoder) Fits() int { return d.stencils.fits }

// Devices is how many device ids are remembered, and what they count as; of MostDeviceBytes.
func (d *Decoder) Devices() (n, bytes int) { return len(d.devices.known), d.devices.bytes }

const MostDeviceBytes = deviceBytes

package decode

// Fits is how many messages were read by a stencil.
func (d *Decoder) Fits() int { return d.stencils.fits }

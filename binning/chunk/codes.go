package chunk

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// A block encodes each run of numbers separately, in codes of bits. A Huffman code needs a table: the few rows of a
// block would have to share one between all columns, and then no column could be read without the others.
// docs/internals/format/block.md specifies the codes.

// The byte in front of codes is stored: 0 says that all numbers are 0, up to 64 it is how many bits each takes, and
// from codeRice on they are Rice codes, the byte less codeRice being their count of low bits.
const (
	codeZeros = 0
	codeRice  = 65
	lastCode  = codeRice + 63
)

// A Rice code writes a number without its low bits as a row of zeros and a one, then the low bits. After mostZeros
// zeros and a one there are, instead, lengthBits bits with the number's length less 1, and the number.
const (
	mostZeros  = 16
	lengthBits = 6
)

// lengths counts numbers by how many bits they have. No number has more than 64; code looks five lengths ahead.
type lengths struct {
	of  [64 + 5]uint32
	all uint64 // the numbers, or-ed
}

func (l *lengths) add(x uint64) { l.all |= l.count(x) }

// count counts a number and returns it. The caller ors it into all: loops over several lengths are faster so.
func (l *lengths) count(x uint64) uint64 {
	l.of[bits.Len64(x)]++
	return x
}

// code returns the code by which n numbers take the fewest bits, and about how many these are. Fewer low bits are tried
// until that takes more again.
func (l *lengths) code(n int) (code byte, least int) {
	longest := bits.Len64(l.all)
	code, least = byte(longest), n*longest
	far, farBits := 0, 0 // numbers that would have too many zeros, and their bits
	for k := longest - 1; k >= 0; k-- {
		far, farBits = far+int(l.of[k+5]), farBits+int(l.of[k+5])*(k+5)
		// In half bits: a number of k+1 bits has one zero, of k+2 bits two or three.
		zeros := int(2*l.of[k+1] + 5*l.of[k+2] + 11*l.of[k+3] + 23*l.of[k+4])
		size := n*(k+1) + zeros/2 + far*(mostZeros+lengthBits-k) + farBits
		if size < least {
			code, least = byte(codeRice+k), size
		} else if k < longest-1 {
			break
		}
	}
	return code, least
}

// gaps returns about how many bits n numbers take if only those other than 0 are kept, and where they are.
func (l *lengths) gaps(n int) int {
	zeros := int(l.of[0])
	some := n - zeros
	if some == 0 || zeros < some {
		return math.MaxInt
	}
	nonzero := *l
	nonzero.of[0] = 0
	_, size := nonzero.code(some)
	low := bits.Len(uint(zeros/some)) - 1
	return size + some*(low+1) + zeros>>low + gapHeads
}

// gapHeads is the bits of the count of numbers other than 0, and of the byte in front of them.
const gapHeads = 16

// bitWriter holds bits, the lowest first, until they fill a word.
type bitWriter struct {
	word uint64
	used uint
}

// put appends the lowest n bits of x, above which there must be none.
func (w *bitWriter) put(dst []byte, x uint64, n uint) []byte {
	w.word |= x << w.used
	if w.used += n; w.used >= 64 {
		dst = binary.LittleEndian.AppendUint64(dst, w.word)
		w.used -= 64
		w.word = x >> (n - w.used)
	}
	return dst
}

// appendCodes appends numbers in a code, filled up to whole bytes.
func appendCodes(dst []byte, code byte, numbers []uint64) []byte {
	dst = append(dst, code)
	var w bitWriter
	switch {
	case code == codeZeros:
	case code < codeRice:
		for _, x := range numbers {
			dst = w.put(dst, x, uint(code))
		}
	default:
		low := uint(code - codeRice)
		for _, x := range numbers {
			switch zeros := x >> low; {
			case zeros >= mostZeros:
				n := uint(bits.Len64(x))
				dst = w.put(dst, 1<<mostZeros|uint64(n-1)<<(mostZeros+1), mostZeros+1+lengthBits)
				dst = w.put(dst, x, n)
			case low <= 64-mostZeros:
				dst = w.put(dst, (x&(1<<low-1)<<1|1)<<zeros, uint(zeros)+1+low)
			default:
				dst = w.put(dst, 1<<zeros, uint(zeros)+1)
				dst = w.put(dst, x&(1<<low-1), low)
			}
		}
	}
	for n := uint(0); n < w.used; n += 8 {
		dst = append(dst, byte(w.word>>n))
	}
	return dst
}

// appendGaps appends which numbers are not 0, by the zeros before each of them, and each of them less 1. It overwrites
// numbers, and zeros.
func appendGaps(dst []byte, numbers, zeros []uint64) []byte {
	gaps, values := zeros[:0], numbers[:0]
	next := 0
	var ofGaps, ofValues lengths
	for i, x := range numbers {
		if x != 0 {
			gaps, values = append(gaps, uint64(i-next)), append(values, x-1)
			ofGaps.add(uint64(i - next))
			ofValues.add(x - 1)
			next = i + 1
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(gaps)))
	code, _ := ofGaps.code(len(gaps))
	dst = appendCodes(dst, code, gaps)
	code, _ = ofValues.code(len(values))
	return appendCodes(dst, code, values)
}

// codeReader reads codes. Behind the bytes that it may read there is room for a word.
type codeReader struct {
	from []byte
	at   int // the next bit
	end  int
}

// Behind a block there is room for wordBytes, in which words that are read may end. A word has at least wordBits. A
// Rice code takes usualBits at most as a rule, besides its low bits.
const wordBytes, wordBits, usualBits = 16, 57, 4

// word returns at least wordBits bits from the next one on.
func (r *codeReader) word() uint64 {
	return binary.LittleEndian.Uint64(r.from[r.at>>3:]) >> (r.at & 7)
}

// take returns the next n bits, at most 64.
func (r *codeReader) take(n int) (uint64, error) {
	if n > r.end-r.at {
		return 0, errCodes
	}
	x, shift := r.word(), r.at&7
	if shift+n > 64 {
		x |= uint64(r.from[r.at>>3+8]) << (64 - shift)
	}
	r.at += n
	return x & (1<<n - 1), nil
}

var errCodes = corrupt("codes that go on behind their end")

// readCodes fills numbers with what appendCodes wrote.
func (d *decoder) readCodes(numbers []uint64) error {
	code, err := d.byte()
	if err != nil {
		return err
	}
	r := codeReader{from: d.s.plain[:cap(d.s.plain)], end: 8 * len(d.s.plain)}
	switch {
	case code == codeZeros:
		clear(numbers)
	case code < codeRice:
		err = r.fixed(numbers, int(code))
	case code <= lastCode:
		err = r.rice(numbers, uint(code-codeRice))
	default:
		err = corrupt("code %d", code)
	}
	d.s.plain = d.s.plain[min((r.at+7)/8, len(d.s.plain)):]
	return err
}

// fixed fills numbers from codes that all have the same width in bits.
func (r *codeReader) fixed(numbers []uint64, width int) (err error) {
	if len(numbers) > r.end/width {
		return errCodes
	}
	if width > wordBits {
		for i := range numbers {
			if numbers[i], err = r.take(width); err != nil {
				return err
			}
		}
		return nil
	}
	mask := uint64(1)<<width - 1
	for i := range numbers {
		numbers[i] = r.word() & mask
		r.at += width
	}
	return nil
}

// rice reads Rice codes into numbers. It reads as many codes as a word usually holds, and then checks the word once.
// Zeros follow the block, so a code that runs past the end of the block stops there.
func (r *codeReader) rice(numbers []uint64, low uint) (err error) {
	low &= 63
	mask, group := uint64(1)<<low-1, max(1, wordBits/(int(low)+usualBits))
	for len(numbers) > 0 {
		some, first := numbers[:min(group, len(numbers))], r.word()
		word, all, used := first, uint(0), uint(len(some))*(low+1)
		for i := range some {
			zeros := uint(bits.TrailingZeros64(word))
			word >>= (zeros + 1) & 63
			some[i] = uint64(zeros)<<low | word&mask
			word >>= low
			all |= zeros
			used += zeros
		}
		if all < mostZeros && used <= wordBits {
			numbers, r.at = numbers[len(some):], r.at+int(used)
			continue
		}
		if numbers[0], err = r.riceFar(bits.TrailingZeros64(first), int(low)); err != nil {
			return err
		}
		numbers = numbers[1:]
	}
	if r.at > r.end {
		return errCodes
	}
	return nil
}

// riceFar reads one Rice code, of any length.
func (r *codeReader) riceFar(zeros, low int) (x uint64, err error) {
	if zeros > mostZeros {
		return 0, corrupt("%d zeros in a code", zeros)
	}
	r.at += zeros + 1
	if zeros < mostZeros {
		x, err = r.take(low)
		return x | uint64(zeros)<<low, err
	}
	n, err := r.take(lengthBits)
	if err != nil {
		return 0, err
	}
	return r.take(int(n) + 1)
}

// readGaps fills numbers with what appendGaps wrote.
func (d *decoder) readGaps(numbers []uint64) error {
	some, err := d.length(len(numbers))
	if err != nil {
		return err
	}
	d.gaps = slices.Grow(d.gaps[:0], 2*some)[:2*some]
	gaps, values := d.gaps[:some], d.gaps[some:]
	if err := d.readCodes(gaps); err != nil {
		return err
	}
	if err := d.readCodes(values); err != nil {
		return err
	}
	clear(numbers)
	next := 0
	for i, gap := range gaps {
		if gap >= uint64(len(numbers)-next) {
			return corrupt("a number behind the last row")
		}
		next += int(gap)
		numbers[next] = values[i] + 1
		next++
	}
	return nil
}

package bins

import "math/bits"

// sizeClasses has chains by some number of bytes, about: four classes to each doubling, so that the chains in a class
// differ by a quarter at most. All takes constant time.
type sizeClasses struct {
	lists   [mostClasses][]*Chain
	classOf func(*Chain) *sizeClass
}

const mostClasses = 4 * 48

// sizeClass locates a chain among classes.
type sizeClass struct {
	slot   int32 // place in the list, from 1, 0 for no list
	number uint8 // number of the list
}

func classOf(bytes int) uint8 {
	n := bits.Len(uint(bytes))
	if n < 3 {
		return uint8(n)
	}
	return uint8(min(4*n+bytes>>(n-3)&3, mostClasses-1))
}

// put keeps a chain in the class of some bytes, and in none with 0.
func (x *sizeClasses) put(c *Chain, bytes int) {
	k, number := x.classOf(c), classOf(bytes)
	if k.slot > 0 && k.number == number && bytes > 0 {
		return
	}
	x.remove(k)
	if bytes > 0 {
		x.lists[number] = append(x.lists[number], c)
		k.number, k.slot = number, int32(len(x.lists[number]))
	}
}

func (x *sizeClasses) remove(k *sizeClass) {
	if k.slot == 0 {
		return
	}
	list := x.lists[k.number]
	last := list[len(list)-1]
	list[k.slot-1], x.classOf(last).slot = last, k.slot
	list[len(list)-1] = nil
	x.lists[k.number] = list[:len(list)-1]
	k.slot = 0
}

// Largest returns a chain of the highest class, nil when x is empty.
func (x *sizeClasses) Largest() *Chain {
	for i := len(x.lists) - 1; i >= 0; i-- {
		if n := len(x.lists[i]); n > 0 {
			return x.lists[i][n-1]
		}
	}
	return nil
}

package feed

// buffer contains the items that are ready for delivery. Readers are long-lived, so it reuses its
// memory.
type buffer struct {
	items []Item
	next  int // the items from here on have not been delivered
}

func (b *buffer) empty() bool { return b.next == len(b.items) }

func (b *buffer) push(item Item) { b.items = append(b.items, item) }

func (b *buffer) take() Item {
	item := b.items[b.next]
	b.items[b.next] = Item{} // the next read may be much later
	b.next++
	return item
}

func (b *buffer) reset() { b.items, b.next = b.items[:0], 0 }

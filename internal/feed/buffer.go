package feed

// buffer has the items that are ready to be delivered. It keeps its memory, as readers live long.
type buffer struct {
	items []Item
	next  int // the items from here on have not been delivered
}

func (b *buffer) empty() bool { return b.next == len(b.items) }

func (b *buffer) push(item Item) { b.items = append(b.items, item) }

func (b *buffer) take() Item {
	item := b.items[b.next]
	b.items[b.next] = Item{} // the viewer may not read for long
	b.next++
	return item
}

func (b *buffer) reset() { b.items, b.next = b.items[:0], 0 }

package feed

// position is the progress of a reader: all records up to seq, part events of the next one, and the
// live log up to offset have been buffered for delivery.
type position struct {
	seq    int64
	part   int
	offset int64
}

func positionOf(c Cursor) position { return position{c.done(), c.Part, c.Offset} }

// cursor is behind the last item.
func (p position) cursor() Cursor {
	c := Cursor{Seq: p.seq, Offset: p.offset}
	if p.part > 0 {
		c.Seq, c.Part = p.seq+1, p.part
	}
	return c
}

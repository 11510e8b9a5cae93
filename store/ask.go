package store

import (
	"fmt"
	"reflect"
)

// Ask returns a store as one with further interfaces, such as [Knowledge] or several in one. If it lacks one, the error says which.
func Ask[T any](s Store) (T, error) {
	out, ok := s.(T)
	if ok {
		return out, nil
	}
	wants := reflect.TypeFor[T]()
	for _, subject := range subjects {
		if wants.Implements(subject) && (s == nil || !reflect.TypeOf(s).Implements(subject)) {
			return out, fmt.Errorf("%T does not implement %v", s, subject)
		}
	}
	return out, fmt.Errorf("%T does not implement %v", s, wants)
}

// subjects are the interfaces of a store.
var subjects = []reflect.Type{
	reflect.TypeFor[Store](), reflect.TypeFor[Agents](), reflect.TypeFor[APIKeys](), reflect.TypeFor[Documents](), reflect.TypeFor[Knowledge](),
	reflect.TypeFor[Entities](), reflect.TypeFor[Erasures](),
}

package server

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// checkItems checks the maxItems tags of a body that huma does not validate, since clients may add
// fields to it.
func checkItems(at string, v reflect.Value) error {
	switch v.Kind() { //nolint:exhaustive // the others have no items
	case reflect.Pointer:
		if !v.IsNil() {
			return checkItems(at, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Index(i).Kind() != reflect.Struct && v.Index(i).Kind() != reflect.Pointer {
				return nil
			}
			if err := checkItems(fmt.Sprintf("%s[%d]", at, i), v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			location := strings.TrimPrefix(at+"."+name, ".")
			if field.Anonymous {
				location = at
			}
			if limit, err := strconv.Atoi(field.Tag.Get("maxItems")); err == nil && v.Field(i).Kind() == reflect.Slice && v.Field(i).Len() > limit {
				return refuse(http.StatusUnprocessableEntity, location, fmt.Sprintf("has %d items, and may have %d", v.Field(i).Len(), limit))
			}
			if field.IsExported() {
				if err := checkItems(location, v.Field(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

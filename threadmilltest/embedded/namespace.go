package embedded

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	persistencespb "go.temporal.io/server/api/persistence/v1"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/searchattribute/sadefs"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

const clusterName = "active"

func isNotFound(err error) bool {
	var notFound *serviceerror.NamespaceNotFound
	return errors.Is(err, dbsql.ErrNoRows) || errors.As(err, &notFound)
}

func (d *database) createNamespace(ctx context.Context, cfg Config) error {
	created, err := sqlite.NewNamespaceConfig(clusterName, cfg.Namespace, false, nil)
	if err != nil {
		return fmt.Errorf("embedded: namespace %q: %w", cfg.Namespace, err)
	}
	if err := configure(created.Detail, cfg); err != nil {
		return err
	}
	if err := sqlite.CreateNamespaces(d.config, created); err != nil {
		return fmt.Errorf("embedded: create namespace %q: %w", cfg.Namespace, err)
	}
	return ctx.Err()
}

func (d *database) updateNamespace(ctx context.Context, cfg Config, row sqlplugin.NamespaceRow) error {
	serializer := serialization.NewSerializer()
	detail, err := serializer.NamespaceDetailFromBlob(persistence.NewDataBlob(row.Data, row.DataEncoding))
	if err != nil {
		return fmt.Errorf("embedded: decode namespace %q: %w", cfg.Namespace, err)
	}
	if err := configure(detail, cfg); err != nil {
		return err
	}
	blob, err := serializer.NamespaceDetailToBlob(detail)
	if err != nil {
		return fmt.Errorf("embedded: encode namespace %q: %w", cfg.Namespace, err)
	}
	row.Data, row.DataEncoding = blob.GetData(), blob.GetEncodingType().String()
	if _, err := d.handle.UpdateNamespace(ctx, &row); err != nil {
		return fmt.Errorf("embedded: update namespace %q: %w", cfg.Namespace, err)
	}
	return nil
}

func configure(detail *persistencespb.NamespaceDetail, cfg Config) error {
	detail.Config.Retention = durationpb.New(cfg.Retention)
	aliases, err := assignColumns(detail.Config.GetCustomSearchAttributeAliases(), cfg.SearchAttributes)
	if err != nil {
		return err
	}
	detail.Config.CustomSearchAttributeAliases = aliases
	return nil
}

// assignColumns assigns to each wanted attribute a database column of its type. It maps columns to
// attributes; existing assignments stay, because stored workflows rely on them.
func assignColumns(assigned map[string]string, wanted map[string]enumspb.IndexedValueType) (map[string]string, error) {
	columns := sadefs.GetDBIndexSearchAttributes(nil).GetCustomSearchAttributes()
	result := map[string]string{}
	columnOf := map[string]string{}
	for column, name := range assigned {
		result[column], columnOf[name] = name, column
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if column, exists := columnOf[name]; exists {
			if columns[column] != wanted[name] {
				return nil, fmt.Errorf("embedded: SearchAttributes: %q exists as %s, not %s; choose another name or DataDir",
					name, columns[column], wanted[name])
			}
			continue
		}
		column, ok := freeColumn(columns, result, wanted[name])
		if !ok {
			return nil, fmt.Errorf("embedded: SearchAttributes: no column of type %s is left for %q", wanted[name], name)
		}
		result[column] = name
	}
	return result, nil
}

func freeColumn(columns map[string]enumspb.IndexedValueType, taken map[string]string, kind enumspb.IndexedValueType) (string, bool) {
	for _, column := range slices.Sorted(maps.Keys(columns)) {
		if _, used := taken[column]; !used && columns[column] == kind {
			return column, true
		}
	}
	return "", false
}

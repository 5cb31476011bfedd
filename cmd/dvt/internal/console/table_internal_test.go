package console

import (
	"slices"
	"testing"
)

// On a narrow terminal the cause keeps its room: other columns are left out, and only then is it cut.
func TestTable_LeavesColumnsOutBeforeItCutsTheFlexibleOne(t *testing.T) {
	t.Parallel()
	for width, want := range map[int][]string{
		100: {"r1", "shop/dev", "2m", "relation raw_orders does not exist", "dvt run retry r1"},
		70:  {"r1", "shop/dev", "2m", "relation raw_orders does not …", "dvt run retry r1"},
		68:  {"r1", "shop/dev", "relation raw_orders does not exist", "dvt run retry r1"},
		40:  {"r1", "relation raw_orders does not …", "dvt run retry r1"},
	} {
		table := &Table{Head: []string{"RUN", "SCOPE", "SINCE", "WHY", "NEXT"}, Flex: "WHY", FlexLeast: 30,
			Yield: []string{"SINCE", "SCOPE"}}
		row := []Span{{Text: "r1"}, {Text: "shop/dev"}, {Text: "2m"}, {Text: "relation raw_orders does not exist"},
			{Text: "dvt run retry r1"}}
		rows, _ := table.squeeze([][]Span{row}, []int{3, 8, 5, 34, 16}, width)
		var got []string
		for _, cell := range rows[0] {
			got = append(got, cell.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at a width of %d the row is %q, want %q", width, got, want)
		}
	}
}

package metadata

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheArchiveStampDecidesWhenItIsANumber(t *testing.T) {
	stamp := func(v string) string { return `{"openchamber":{"archive":{"archivedAt":` + v + `}}}` }
	for _, c := range []struct {
		name, doc string
		want      View
	}{
		{"a positive time archives", stamp("1790000000000"), View{Archive: Archived, ArchivedAt: 1790000000000}},
		{"zero is explicitly active", stamp("0"), View{Archive: Active}},
		{"zero written as a float is zero", stamp("0.0"), View{Archive: Active}},
		{"minus zero is zero", stamp("-0"), View{Archive: Active}},
		{"zero with an exponent is zero", stamp("0e5"), View{Archive: Active}},
		{"a fraction below one is positive, not an un-archive", stamp("0.4"), View{Archive: Archived, ArchivedAt: 1}},
		{"a float is cut to the millisecond", stamp("1790000000000.9"), View{Archive: Archived, ArchivedAt: 1790000000000}},
		{"a negative number says nothing", stamp("-5"), View{}},
		{"a text says nothing", stamp(`"1790000000000"`), View{}},
		{"true says nothing", stamp("true"), View{}},
		{"null says nothing", stamp("null"), View{}},
		{"an object says nothing", stamp("{}"), View{}},
		{"a number beyond every time is positive", stamp("1e300"), View{Archive: Archived, ArchivedAt: latest}},
		{"a number beyond what a float holds is not a number", stamp("1e999"), View{}},
		{"an archive that is not an object says nothing", `{"openchamber":{"archive":1}}`, View{}},
		{"another namespace says nothing", `{"elsewhere":{"archive":{"archivedAt":5}}}`, View{}},
		{"a namespace that is not an object says nothing", `{"openchamber":[]}`, View{}},
		{"nothing", ``, View{}},
		{"not JSON", `{{{`, View{}},
		{"an array", `[1,2]`, View{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Read(json.RawMessage(c.doc), DefaultNamespace)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestASystemSessionIsKnownByItsMarksAlone(t *testing.T) {
	for _, c := range []struct {
		name, space string
		want        bool
	}{
		{"an assistant's", `{"assistant":{"assistantID":"a1"}}`, true},
		{"an assistant's that a contact assigned is a person's", `{"assistant":{"assistantID":"a1"},"assigned":{"from":"contact"}}`, false},
		{"assigned from elsewhere", `{"assistant":{"assistantID":"a1"},"assigned":{"from":"timer"}}`, true},
		{"an empty assistant id", `{"assistant":{"assistantID":""}}`, false},
		{"an assistant id that is a number", `{"assistant":{"assistantID":7}}`, false},
		{"a scheduled task's", `{"scheduledTask":{"taskID":"t"}}`, true},
		{"a small model's", `{"smallModel":{"purpose":"title"}}`, true},
		{"a helper model's", `{"llm":{"purpose":"summary"}}`, true},
		{"a scheduled task assigned by a contact is still a task's", `{"scheduledTask":{"taskID":"t"},"assigned":{"from":"contact"}}`, true},
		{"none of them", `{"note":"x"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Read(json.RawMessage(`{"space":`+c.space+`}`), "space")
			if got.System != c.want {
				t.Errorf("system = %v, want %v", got.System, c.want)
			}
		})
	}
}

func TestTheTitleRefreshIsATime(t *testing.T) {
	got := Read(json.RawMessage(`{"openchamber":{"titleRefresh":{"activityUpdatedAt":42.5}}}`), DefaultNamespace)
	if got.RefreshAt != 42 {
		t.Errorf("refresh at %d, want 42", got.RefreshAt)
	}
}

func FuzzReadNeverFailsAndNeverInventsAnArchive(f *testing.F) {
	f.Add([]byte(`{"openchamber":{"archive":{"archivedAt":1}}}`))
	f.Add([]byte(`{"openchamber":{"archive":{"archivedAt":0.1}}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v := Read(doc, DefaultNamespace)
		if v.Archive != Archived && v.ArchivedAt != 0 {
			t.Errorf("%+v: a time without an archive", v)
		}
		if v.Archive == Archived && v.ArchivedAt < 1 {
			t.Errorf("%+v: archived, at no time", v)
		}
		if v.ArchivedAt < 0 || v.RefreshAt < 0 {
			t.Errorf("%+v: a negative time", v)
		}
		if !json.Valid(doc) && v != (View{}) {
			t.Errorf("%+v from what is not JSON", v)
		}
	})
}

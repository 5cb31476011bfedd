package lineage

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

const (
	spec      = "https://openlineage.io/spec/"
	schemaURL = spec + "2-0-2/OpenLineage.json#/$defs/RunEvent"
	maxInputs = 1_000 // of an event
)

// facets are the facets of one object by name.
type facets map[string]any

// facet returns a facet with the members that each one must have. schema is the name of its schema and version its
// version.
func facet(version, schema string, members facets) facets {
	members["_producer"] = Producer
	members["_schemaURL"] = spec + "facets/" + version + "/" + schema + ".json#/$defs/" + schema
	return members
}

type document struct {
	EventType State       `json:"eventType"`
	EventTime string      `json:"eventTime"`
	Producer  string      `json:"producer"`
	SchemaURL string      `json:"schemaURL"`
	Run       runDocument `json:"run"`
	Job       jobDocument `json:"job"`
	Inputs    []dataset   `json:"inputs"`
	Outputs   []dataset   `json:"outputs"`
	detail    detail      // of the facets of datasets and job
}

type runDocument struct {
	RunID  string `json:"runId"`
	Facets facets `json:"facets,omitempty"`
}

type jobDocument struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Facets    facets `json:"facets,omitempty"`
}

type dataset struct {
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	Facets       facets `json:"facets,omitempty"`
	InputFacets  facets `json:"inputFacets,omitempty"`
	OutputFacets facets `json:"outputFacets,omitempty"`
}

// detail is how much an event says. An event that is too large says less.
type detail int

const (
	namesOnly  detail = iota // of datasets
	withSchema               // and columns and descriptions
	withSQL                  // and the compiled SQL
)

// Encode returns the JSON of the event, at most limit bytes where that is possible: a larger event is written without
// its SQL, then without columns and descriptions. m is the manifest that Manifest names, or nil when it cannot be read.
// It returns nil for a node that is no execution: an ephemeral model, which dbt 2 lists.
func (e *Event) Encode(m *Manifest, limit int) (json.RawMessage, error) {
	if e.node != nil && m.isEphemeral(e.node.ID) {
		return nil, nil
	}
	most := withSQL
	if e.State == Start { // the end says it
		most = namesOnly
	}
	for d := most; ; d-- {
		doc, err := json.Marshal(e.document(m, d))
		if err != nil || len(doc) <= limit || d == namesOnly {
			return doc, err
		}
	}
}

// Test returns an event by which people see whether a receiver accepts events. It is no part of a lineage: its state is
// OTHER. id identifies the message.
func Test(id string, at time.Time) (json.RawMessage, error) {
	e := Event{State: "OTHER", Time: at.UTC(), namespace: "dvt://test",
		of: subject{run: uuidOf("test|" + id), name: "destination-test", kind: "TASK"}}
	return json.Marshal(e.document(nil, namesOnly))
}

func (e *Event) document(m *Manifest, d detail) document {
	doc := document{EventType: e.State, EventTime: e.Time.Format(time.RFC3339Nano), Producer: Producer,
		SchemaURL: schemaURL, Inputs: []dataset{}, Outputs: []dataset{}, detail: d,
		Run: runDocument{RunID: e.of.run, Facets: facets{}},
		Job: jobDocument{Namespace: e.namespace, Name: e.of.name, Facets: facets{}}}
	integration := "DVT"
	if e.node != nil {
		integration = "DBT"
	}
	doc.Job.Facets["jobType"] = facet("2-0-4", "JobTypeJobFacet",
		facets{"processingType": "BATCH", "integration": integration, "jobType": e.of.kind})
	if e.parent != nil {
		doc.Run.Facets["parent"] = facet("1-2-0", "ParentRunFacet", facets{"run": runOf(*e.parent),
			"job": e.jobOf(*e.parent), "root": facets{"run": runOf(*e.root), "job": e.jobOf(*e.root)}})
	}
	if e.failure != "" {
		language := "unknown"
		if e.node != nil {
			language = "sql"
		}
		doc.Run.Facets["errorMessage"] = facet("1-0-1", "ErrorMessageRunFacet",
			facets{"message": e.failure, "programmingLanguage": language})
	}
	if e.node != nil && m != nil {
		e.describeNode(&doc, m)
	}
	return doc
}

func runOf(s subject) facets { return facets{"runId": s.run} }

func (e *Event) jobOf(s subject) facets { return facets{"namespace": e.namespace, "name": s.name} }

// describeNode adds what the manifest says of a node.
func (e *Event) describeNode(doc *document, m *Manifest) {
	if m.DBTVersion != "" {
		doc.Run.Facets["processing_engine"] = facet("1-1-1", "ProcessingEngineRunFacet",
			facets{"name": "dbt", "version": m.DBTVersion})
	}
	n := m.nodes[e.node.ID]
	if doc.detail >= withSQL && n.SQL != "" {
		members := facets{"query": n.SQL}
		if m.Adapter != "" {
			members["dialect"] = m.Adapter
		}
		doc.Job.Facets["sql"] = facet("1-1-0", "SQLJobFacet", members)
	}
	if doc.detail >= withSchema && n.Description != "" {
		doc.Job.Facets["documentation"] = facet("1-1-0", "DocumentationJobFacet", facets{"description": n.Description})
	}
	inputs, outputs := m.Datasets(e.node.ID, e.warehouse)
	for _, in := range inputs[:min(len(inputs), maxInputs)] {
		out := doc.datasetOf(in, m)
		if a := e.assertion(n, in.id); a != nil {
			out.InputFacets = facets{"dataQualityAssertions": a}
		}
		doc.Inputs = append(doc.Inputs, out)
	}
	for _, to := range outputs {
		out := doc.datasetOf(to, m)
		if stats := e.statistics(); stats != nil {
			out.OutputFacets = facets{"outputStatistics": stats}
		}
		doc.Outputs = append(doc.Outputs, out)
	}
}

func (doc *document) datasetOf(of Dataset, m *Manifest) dataset {
	out := dataset{Namespace: of.Namespace, Name: of.Name}
	if doc.detail < withSchema {
		return out
	}
	out.Facets = facets{}
	if strings.Contains(of.Namespace, "://") {
		out.Facets["dataSource"] = facet("1-0-1", "DatasourceDatasetFacet",
			facets{"name": of.Namespace, "uri": of.Namespace})
	}
	n := m.nodes[of.id]
	if n.Description != "" {
		out.Facets["documentation"] = facet("1-1-0", "DocumentationDatasetFacet", facets{"description": n.Description})
	}
	if len(n.Columns) > 0 {
		fields := make([]facets, len(n.Columns))
		for i, c := range n.Columns {
			fields[i] = facets{"name": c.Name}
			if c.Type != "" {
				fields[i]["type"] = c.Type
			}
			if c.Description != "" {
				fields[i]["description"] = c.Description
			}
		}
		out.Facets["schema"] = facet("1-2-0", "SchemaDatasetFacet", facets{"fields": fields})
	}
	return out
}

// statistics returns the facet with rows and bytes of a node that succeeded. Some adapters report 0 of every table, so
// 0 is not known.
func (e *Event) statistics() facets {
	if e.State != Complete {
		return nil
	}
	members := facets{}
	if n := e.node.Rows; n != nil && *n > 0 {
		members["rowCount"] = *n
	}
	if n := e.node.Bytes; n != nil && *n > 0 {
		members["size"] = *n
	}
	if len(members) == 0 {
		return nil
	}
	return facet("1-0-2", "OutputStatisticsOutputDatasetFacet", members)
}

// assertion returns the facet with the result of a test, for the dataset that it is attached to, or for each one that a
// test without such a dataset reads. It is nil for other nodes and before the end.
func (e *Event) assertion(n entry, dataset string) facets {
	if kind, _, _ := strings.Cut(e.node.ID, "."); kind != "test" || e.State != Complete && e.State != Fail ||
		n.Attached != "" && n.Attached != dataset {
		return nil
	}
	members := facets{"assertion": n.Test.Name, "name": n.Name, "success": e.node.Status == run.NodeSuccess}
	if n.Test.Name == "" { // a singular test
		members["assertion"] = n.Name
	}
	if n.Column != "" {
		members["column"] = n.Column
	}
	if n.Config.Severity != "" {
		members["severity"] = strings.ToLower(n.Config.Severity)
	}
	return facet("1-1-0", "DataQualityAssertionsDatasetFacet", facets{"assertions": []facets{members}})
}

// kindOf returns the type of the job of a node.
func kindOf(n run.Node) string {
	kind, _, _ := strings.Cut(n.ID, ".")
	if kind == "unit_test" {
		kind = "test"
	}
	return strings.ToUpper(kind)
}

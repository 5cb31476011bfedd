{# DuckDB does not tell how many rows a model has: count them, one line a model,
   in the words that dvt reads into the step's result. #}
{% macro report_rows(results) %}
    {% if execute %}
        {% for result in results
            if result.node.resource_type == 'model' and result.status == 'success' %}
            {% set answer = run_query('select count(*) from ' ~ result.node.relation_name) %}
            {% do log('dvt.rows ' ~ result.node.name ~ ' ' ~ answer.columns[0].values()[0], info=true) %}
        {% endfor %}
    {% endif %}
{% endmacro %}

-- Units of work of a pipeline, with the artifact or version that each came to or judged.
select
    c.idempotency_key as key, c.run_id,
    case
        when c.step <> '' then '{}'
        when c.stage in ('extract', 'validate') then array[c.output_ref]
        when c.stage in ('transform', 'gate', 'publish') then array[c.input_ref, c.output_ref]
        else '{}'
    end::text[] as output
from ops.checkpoints as c
where c.pipeline = %s

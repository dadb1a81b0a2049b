-- Claims a model for a pipeline, with the columns that its published view has; no row when another pipeline owns it.
insert into ops.published_models as p (model, pipeline, columns)
values (%(model)s, %(pipeline)s, %(columns)s)
on conflict (model) do update set columns = excluded.columns
    where p.pipeline = excluded.pipeline
returning p.model

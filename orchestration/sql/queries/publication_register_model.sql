-- Claims a model for a pipeline, with the shape that its published view has; no row when another pipeline owns it.
insert into ops.published_models as p (model, pipeline, columns, shape, renamed)
values (%(model)s, %(pipeline)s, %(columns)s, %(shape)s, %(renamed)s)
on conflict (model) do update
    set columns = excluded.columns,
        shape = excluded.shape,
        renamed = excluded.renamed
    where p.pipeline = excluded.pipeline
returning p.model

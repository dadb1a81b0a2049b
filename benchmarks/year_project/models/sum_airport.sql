select airport_code, count(*) as observations, max(temperature) as warmest
from {{ ref('fct_weather') }}
group by airport_code
